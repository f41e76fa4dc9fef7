import com.fasterxml.jackson.databind.JsonNode;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.ContextualFixedKeyProcessor;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorContext;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;

/** The processors of one's own that a case may name. */
final class Processors {
    private Processors() {
    }

    static Processor<Object, Object, Object, Object> free(JsonNode step) {
        switch (step.get("processor").asText()) {
            case "running_sum": return new RunningSum(step.get("stores").get(0).asText());
            case "flush": return new Flush(step);
            case "clock": return new Clock(step);
            case "later": return new Later();
            default: throw new IllegalArgumentException("no processor " + step);
        }
    }

    static FixedKeyProcessor<Object, Object, Object> fixed(JsonNode step) {
        switch (step.get("processor").asText()) {
            case "times": return new Times();
            case "header": return new Header();
            default: throw new IllegalArgumentException("no fixed key processor " + step);
        }
    }

    private static PunctuationType type(JsonNode step) {
        return step.get("type").asText().equals("stream") ? PunctuationType.STREAM_TIME : PunctuationType.WALL_CLOCK_TIME;
    }

    /** Forwards the sum of all values of a key. */
    private static final class RunningSum extends ContextualProcessor<Object, Object, Object, Object> {
        private final String name;

        RunningSum(String name) {
            this.name = name;
        }

        @Override
        public void process(Record<Object, Object> record) {
            KeyValueStore<Object, Object> store = context().getStateStore(name);
            Object before = store.get(record.key());
            Long sum = (before == null ? 0 : (Long) before) + (record.value() == null ? 0 : (Long) record.value());
            store.put(record.key(), sum);
            context().forward(record.withValue(sum));
        }
    }

    /** Sums values by key, and forwards and forgets all sums at each punctuation. */
    private static final class Flush extends ContextualProcessor<Object, Object, Object, Object> {
        private final JsonNode step;

        Flush(JsonNode step) {
            this.step = step;
        }

        @Override
        public void init(ProcessorContext<Object, Object> context) {
            super.init(context);
            context.schedule(Plans.millis(step, "every"), type(step), this::flush);
        }

        private void flush(long now) {
            KeyValueStore<Object, Object> store = context().getStateStore(step.get("stores").get(0).asText());
            try (KeyValueIterator<Object, Object> all = store.all()) {
                while (all.hasNext()) {
                    KeyValue<Object, Object> each = all.next();
                    context().forward(new Record<>(each.key, each.value, now));
                    store.delete(each.key);
                }
            }
        }

        @Override
        public void process(Record<Object, Object> record) {
            KeyValueStore<Object, Object> store = context().getStateStore(step.get("stores").get(0).asText());
            Object before = store.get(record.key());
            store.put(record.key(), (before == null ? 0 : (Long) before) + (Long) record.value());
        }
    }

    /** Forwards the time of each punctuation under the key "tick", and stops after three. */
    private static final class Clock extends ContextualProcessor<Object, Object, Object, Object> {
        private final JsonNode step;
        private int ticks;
        private org.apache.kafka.streams.processor.Cancellable schedule;

        Clock(JsonNode step) {
            this.step = step;
        }

        @Override
        public void init(ProcessorContext<Object, Object> context) {
            super.init(context);
            schedule = context.schedule(Plans.millis(step, "every"), type(step), now -> {
                context().forward(new Record<>("tick", String.valueOf(now), now));
                if (++ticks == 3) {
                    schedule.cancel();
                }
            });
        }

        @Override
        public void process(Record<Object, Object> record) {
            context().forward(record);
        }
    }

    /** Forwards a record twice, the second time a second later. */
    private static final class Later extends ContextualProcessor<Object, Object, Object, Object> {
        @Override
        public void process(Record<Object, Object> record) {
            context().forward(record);
            context().forward(record.withKey(record.key() + "'").withTimestamp(record.timestamp() + 1000));
        }
    }

    /** Says what time it is: the record's and the stream's. */
    private static final class Times extends ContextualFixedKeyProcessor<Object, Object, Object> {
        @Override
        public void process(FixedKeyRecord<Object, Object> record) {
            FixedKeyProcessorContext<Object, Object> context = context();
            String said = record.value() + "@" + record.timestamp() + "/" + context.currentStreamTimeMs();
            context.forward(record.withValue(said));
        }
    }

    /** Adds the header "seen". */
    private static final class Header extends ContextualFixedKeyProcessor<Object, Object, Object> {
        @Override
        public void process(FixedKeyRecord<Object, Object> record) {
            record.headers().add("seen", String.valueOf(record.value()).getBytes());
            context().forward(record);
        }
    }
}
