// What npm's clients of schema registries make of one: node registry.js URL confluent|kafkajs
const assert = require('assert')

const [url, which] = process.argv.slice(2)
const USER = JSON.stringify({ type: 'record', name: 'User', fields: [{ name: 'name', type: 'string' }] })
const WIDER = JSON.stringify({
  type: 'record',
  name: 'User',
  fields: [{ name: 'name', type: 'string' }, { name: 'age', type: 'int' }],
})
const MONEY = JSON.stringify({ type: 'record', name: 'Money', fields: [{ name: 'cents', type: 'int' }] })
const ORDER = JSON.stringify({ type: 'record', name: 'Order', fields: [{ name: 'price', type: 'Money' }] })
const PERSON = JSON.stringify({ type: 'object', properties: { name: { type: 'string' } } })
const GREETING = 'syntax = "proto3"; package shop; message Greeting { string words = 1; }'

async function confluent() {
  const { SchemaRegistryClient, SerdeType, AvroSerializer, AvroDeserializer } = require('@confluentinc/schemaregistry')
  const { JsonSerializer, JsonDeserializer } = require('@confluentinc/schemaregistry')
  const client = new SchemaRegistryClient({ baseURLs: [url] })
  const id = await client.register('node-users-value', { schema: USER, schemaType: 'AVRO' })
  assert.equal(await client.getId('node-users-value', { schema: USER, schemaType: 'AVRO' }), id)
  assert.equal((await client.getBySubjectAndId('node-users-value', id)).schema, USER)
  await assert.rejects(client.register('node-users-value', { schema: WIDER }), error => error.status === 409)
  assert.equal(await client.testSubjectCompatibility('node-users-value', { schema: WIDER }), false)
  await client.register('node-money', { schema: MONEY })
  const references = [{ name: 'Money', subject: 'node-money', version: 1 }]
  await client.register('node-orders-value', { schema: ORDER, references })

  const written = await new AvroSerializer(client, SerdeType.VALUE, { useLatestVersion: true }).serialize('node-orders', {
    price: { cents: 7 },
  })
  const fresh = new SchemaRegistryClient({ baseURLs: [url] })
  const read = await new AvroDeserializer(fresh, SerdeType.VALUE, {}).deserialize('node-orders', written)
  assert.deepEqual(JSON.parse(JSON.stringify(read)), { price: { cents: 7 } })

  await client.register('node-people-value', { schema: PERSON, schemaType: 'JSON' })
  const json = await new JsonSerializer(client, SerdeType.VALUE, { useLatestVersion: true }).serialize('node-people', {
    name: 'Åsa',
  })
  assert.deepEqual(await new JsonDeserializer(fresh, SerdeType.VALUE, {}).deserialize('node-people', json), { name: 'Åsa' })
  assert.deepEqual(await client.deleteSubject('node-people-value'), [1])
}

async function kafkajs() {
  const { SchemaRegistry, SchemaType } = require('@kafkajs/confluent-schema-registry')
  const registry = new SchemaRegistry({ host: url })
  const values = {
    [SchemaType.AVRO]: [USER, { name: 'Anna' }],
    [SchemaType.JSON]: [PERSON, { name: 'Åsa' }],
    [SchemaType.PROTOBUF]: [GREETING, { words: 'hello' }],
  }
  for (const [type, [schema, value]] of Object.entries(values)) {
    const subject = `kafkajs-${type}`
    const { id } = await registry.register({ type, schema }, { subject })
    const data = await registry.encode(id, value)
    const fresh = new SchemaRegistry({ host: url })
    assert.deepEqual(JSON.parse(JSON.stringify(await fresh.decode(data))), value, type)
    assert.equal(await fresh.getLatestSchemaId(subject), id)
    assert.equal(await fresh.getRegistryIdBySchema(subject, { type, schema }), id)
  }
  await assert.rejects(registry.register({ type: 'AVRO', schema: WIDER.replace('User', 'Users') }, { subject: 'kafkajs-AVRO' }))
}

const run = which === 'confluent' ? confluent : kafkajs
run().then(() => console.log('as it should be'), error => { console.error(error); process.exit(1) })
