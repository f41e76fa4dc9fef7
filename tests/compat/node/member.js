// A member of a consumer group: node member.js BOOTSTRAP TOPIC GROUP. Prints the same JSON lines as tests/compat/member.py.
const { Kafka, CompressionTypes, logLevel } = require("kafkajs");

const [bootstrap, topic, groupId] = process.argv.slice(2);
const kafka = new Kafka({ clientId: "kafkajs", brokers: bootstrap.split(","), logLevel: logLevel.ERROR });
const say = (what, value) => console.log(JSON.stringify({ [what]: value }));

async function consume() {
  const consumer = kafka.consumer({ groupId, sessionTimeout: 3000, heartbeatInterval: 300, rebalanceTimeout: 5000, maxWaitTimeInMs: 200 });
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    say("assigned", (payload.memberAssignment[topic] || []).slice().sort());
  });
  process.on("SIGTERM", () => consumer.disconnect().finally(() => process.exit(0)));
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  await consumer.run({
    autoCommit: false,
    eachMessage: async ({ partition, message }) => {
      say("record", [partition, Number(message.offset), message.value.toString()]);
      await consumer.commitOffsets([{ topic, partition, offset: String(BigInt(message.offset) + 1n) }]);
    },
  });
}

// With "round-trip" as its group: create a topic, produce with what the client can compress, and describe the cluster.
async function roundTrip() {
  const admin = kafka.admin();
  await admin.connect();
  await admin.createTopics({ topics: [{ topic, numPartitions: 2 }], waitForLeaders: true });
  const producer = kafka.producer({ idempotent: true });
  await producer.connect();
  for (const compression of [CompressionTypes.None, CompressionTypes.GZIP]) {
    const messages = [...Array(50).keys()].map((n) => ({ key: `k${n}`, value: `v${n}`, headers: { h: "1" } }));
    await producer.send({ topic, acks: -1, compression, messages });
  }
  await producer.disconnect();
  const cluster = await admin.describeCluster();
  const offsets = await admin.fetchTopicOffsets(topic);
  const end = offsets.reduce((sum, each) => sum + Number(each.offset), 0);
  const later = await admin.fetchTopicOffsetsByTimestamp(topic, Date.now() + 3600000);
  say("round-trip", { brokers: cluster.brokers.length, end, later: later.length });
  await admin.disconnect();
}

(groupId === "round-trip" ? roundTrip() : consume()).catch((error) => {
  console.error(error);
  process.exit(1);
});
