// ksqldb-client and ksqldb-js against a server: one JSON line for each thing that they were answered.
const KsqldbClient = require('ksqldb-client');
const Ksqldb = require('ksqldb-js');

const [url, name] = process.argv.slice(2);
const { protocol, hostname, port } = new URL(url);
const tell = (what, value) => console.log(JSON.stringify({ what, value }));
const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const first = async () => {
  const client = new KsqldbClient({ host: `${protocol}//${hostname}`, port: Number(port) });
  await client.connect();
  const columns = '(id STRING KEY, v INT)';
  const made = await client.executeStatement(
    `CREATE STREAM ${name} ${columns} WITH (kafka_topic='${name}', value_format='JSON', partitions=1);`
  );
  tell('client made', made.data.rows[0].commandStatus.status);
  tell('client inserted', (await client.insertInto(name, { id: 'a', v: 1 })).data.rows[0].status);
  tell('client pulled', (await client.query(`SELECT * FROM ${name};`)).data.rows);
  const rows = [];
  await client.streamQuery(
    `SELECT id, v FROM ${name} EMIT CHANGES LIMIT 1;`,
    (data) => rows.push(...(data.rows || [])),
    { properties: { 'auto.offset.reset': 'earliest' } }
  );
  tell('client pushed', rows);
  await client.disconnect();
};

const second = async () => {
  const client = new Ksqldb({ ksqldbURL: url });
  tell('js inserted', await client.insertStream(name, [{ ID: 'b', V: 2 }]));
  tell('js pulled', (await client.pull(`SELECT * FROM ${name};`)).slice(1));
  const got = [];
  const id = await client.push(`SELECT * FROM ${name} EMIT CHANGES;`, (data) => got.push(JSON.parse(data)));
  await client.insertStream(name, [{ ID: 'c', V: 3 }]);
  for (let turn = 0; turn < 600 && got.length < 2; turn += 1) await wait(50);
  tell('js pushed', got.slice(1));
  await client.terminate(id);
  tell('js info', (await client.inspectServerInfo()).data.KsqlServerInfo.serverStatus);
};

first()
  .then(second)
  .then(() => process.exit(0))
  .catch((error) => {
    console.error(error);
    process.exit(1);
  });
