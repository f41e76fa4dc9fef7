package org.apache.kafka.connect.mirror;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;

/** Prints the slots of Kafka's own store: each line of the input is a stream, "upstream:downstream" between blanks. */
public class SyncSlots {
    static final TopicPartition PLACE = new TopicPartition("topic", 3);

    static final class Store extends OffsetSyncStore {
        @Override
        void backingStoreStart() { }

        void take(OffsetSync sync) {
            handleRecord(new ConsumerRecord<>("syncs", 0, 0, sync.recordKey(), sync.recordValue()));
        }
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder out = new StringBuilder();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            try (Store store = new Store()) {
                store.start(true);
                for (String each : line.split(" ")) {
                    String[] pair = each.split(":");
                    store.take(new OffsetSync(PLACE, Long.parseLong(pair[0]), Long.parseLong(pair[1])));
                }
                for (int slot = 0; slot < 64; slot++) {
                    OffsetSync found = store.syncFor(PLACE, slot);
                    out.append(found.upstreamOffset()).append(':').append(found.downstreamOffset()).append(' ');
                }
                out.append("|");
                long top = store.syncFor(PLACE, 0).upstreamOffset();
                for (long asked : new long[] {0, top / 3, top / 2, top - 2, top - 1, top, top + 1, top + 100}) {
                    java.util.OptionalLong found = store.translateDownstream("group", PLACE, asked);
                    out.append(' ').append(asked).append('=').append(found.isPresent() ? found.getAsLong() : "none");
                }
                out.append('\n');
            }
        }
        System.out.print(out);
    }
}
