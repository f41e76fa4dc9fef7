// A member of a consumer group: compat BOOTSTRAP TOPIC GROUP. Prints the same JSON lines as tests/compat/member.py.
// With `secured FILE` for the group it writes and reads through TLS and a login, as the file says (secured.go).
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func say(what string, value any) {
	line, err := json.Marshal(map[string]any{what: value})
	check(err)
	fmt.Println(string(line))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// roundTrip produces with every codec, idempotently, and reads everything back.
func roundTrip(bootstrap, topic string) {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	codecs := []kgo.CompressionCodec{
		kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression(),
	}
	for _, codec := range codecs {
		client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(bootstrap, ",")...), kgo.DefaultProduceTopic(topic),
			kgo.ProducerBatchCompression(codec), kgo.AllowAutoTopicCreation())
		check(err)
		for n := range 50 {
			record := &kgo.Record{Value: fmt.Appendf(nil, "value %d", n), Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("1")}}}
			check(client.ProduceSync(ctx, record).FirstErr())
		}
		client.Close()
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(bootstrap, ",")...), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	check(err)
	read, headers := 0, 0
	for read < 50*len(codecs) {
		fetches := client.PollFetches(ctx)
		check(fetches.Err())
		fetches.EachRecord(func(each *kgo.Record) {
			read++
			headers += len(each.Headers)
		})
	}
	client.Close()
	say("round-trip", map[string]int{"read": read, "headers": headers})
}

func consume(bootstrap, topic, group string) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	owned := map[int32]bool{}
	tell := func() {
		partitions := []int32{}
		for each := range owned {
			partitions = append(partitions, each)
		}
		slices.Sort(partitions)
		say("assigned", partitions)
	}
	changed := func(has bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			for _, each := range partitions[topic] {
				if has {
					owned[each] = true
				} else {
					delete(owned, each)
				}
			}
			tell()
		}
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(bootstrap, ",")...), kgo.ConsumeTopics(topic), kgo.ConsumerGroup(group),
		kgo.SessionTimeout(3*time.Second), kgo.HeartbeatInterval(300*time.Millisecond), kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.OnPartitionsAssigned(changed(true)), kgo.OnPartitionsRevoked(changed(false)), kgo.OnPartitionsLost(changed(false)))
	check(err)
	defer client.Close()
	for ctx.Err() == nil {
		fetches := client.PollFetches(ctx)
		fetches.EachRecord(func(each *kgo.Record) {
			say("record", []any{each.Partition, each.Offset, string(each.Value)})
		})
		if err := client.CommitUncommittedOffsets(ctx); err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, err)
		}
		client.AllowRebalance()
	}
}

func main() {
	bootstrap, topic, group := os.Args[1], os.Args[2], os.Args[3]
	switch {
	case len(os.Args) > 4:
		secured(bootstrap, topic, os.Args[4])
	case group == "round-trip":
		roundTrip(bootstrap, topic)
	default:
		consume(bootstrap, topic, group)
	}
}
