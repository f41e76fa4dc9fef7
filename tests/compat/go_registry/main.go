// What Go's clients of schema registries make of one: franz-go's pkg/sr and confluent-kafka-go's schemaregistry.
//
// Usage: registry URL sr|confluent. Ends with 0 where everything was as it should be, and says what was not.
package main

import (
	"context"
	"fmt"
	"os"
	"reflect"

	confluent "github.com/confluentinc/confluent-kafka-go/v2/schemaregistry"
	"github.com/confluentinc/confluent-kafka-go/v2/schemaregistry/serde"
	"github.com/confluentinc/confluent-kafka-go/v2/schemaregistry/serde/avrov2"
	"github.com/confluentinc/confluent-kafka-go/v2/schemaregistry/serde/jsonschema"
	"github.com/twmb/franz-go/pkg/sr"
)

const money = `{"type":"record","name":"Money","fields":[{"name":"cents","type":"long"}]}`
const order = `{"type":"record","name":"Order","fields":[{"name":"price","type":"Money"}]}`
const user = `{"type":"record","name":"User","fields":[{"name":"name","type":"string"}]}`
const wider = `{"type":"record","name":"User","fields":[{"name":"name","type":"string"},{"name":"age","type":"int"}]}`
const proto = "syntax = \"proto3\";\nmessage Greeting {\n  string words = 1;\n}\n"
const person = `{"type":"object","properties":{"name":{"type":"string"}}}`

// User is what is written and read.
type User struct {
	Name string `avro:"name" json:"name"`
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func same(what string, found, expected any) {
	if !reflect.DeepEqual(found, expected) {
		panic(fmt.Sprintf("%s: %v, and %v was expected", what, found, expected))
	}
}

func franz(url string) {
	ctx := context.Background()
	client := must(sr.NewClient(sr.URLs(url)))
	base := must(client.CreateSchema(ctx, "franz-money", sr.Schema{Schema: money}))
	refers := sr.Schema{Schema: order, References: []sr.SchemaReference{{Name: "Money", Subject: "franz-money", Version: 1}}}
	referring := must(client.CreateSchema(ctx, "franz-order", refers))
	same("who refers", len(must(client.SchemaReferences(ctx, "franz-money", 1))), 1)
	same("looked up", must(client.LookupSchema(ctx, "franz-order", refers)).ID, referring.ID)
	same("by id", must(client.SchemaByID(ctx, base.ID)).Schema, money)
	for name, each := range map[string]sr.Schema{
		"franz-proto": {Schema: proto, Type: sr.TypeProtobuf},
		"franz-json":  {Schema: person, Type: sr.TypeJSON},
	} {
		made := must(client.CreateSchema(ctx, name, each))
		same(name, must(client.SchemaByVersion(ctx, name, -1)).ID, made.ID)
		same(name, must(client.SchemaByID(ctx, made.ID)).Type, each.Type)
	}
	first := must(client.CreateSchema(ctx, "franz-user", sr.Schema{Schema: user}))
	same("compatible", must(client.CheckCompatibility(ctx, "franz-user", -1, sr.Schema{Schema: wider})).Is, false)
	if _, err := client.CreateSchema(ctx, "franz-user", sr.Schema{Schema: wider}); err == nil {
		panic("an incompatible schema was registered")
	}
	for _, each := range client.SetCompatibility(ctx, sr.SetCompatibility{Level: sr.CompatNone}, "franz-user") {
		same("level", each.Level, sr.CompatNone)
		must(each, each.Err)
	}
	must(client.CreateSchema(ctx, "franz-user", sr.Schema{Schema: wider}))
	same("versions", must(client.SubjectVersions(ctx, "franz-user")), []int{1, 2})
	same("is used", len(must(client.SchemaUsagesByID(ctx, first.ID))) > 0, true)
	same("soft", must(client.DeleteSubject(ctx, "franz-user", sr.SoftDelete)), []int{1, 2})
	same("hard", must(client.DeleteSubject(ctx, "franz-user", sr.HardDelete)), []int{1, 2})
	same("types", len(must(client.SupportedTypes(ctx))), 3)
	for _, each := range client.SetMode(ctx, sr.ModeReadOnly, "franz-money") {
		must(each, each.Err)
	}
	for _, each := range client.Mode(ctx, "franz-money") {
		same("mode", each.Mode, sr.ModeReadOnly)
	}
	for _, each := range client.ResetMode(ctx, "franz-money") {
		must(each, each.Err)
	}
}

func confluentKafka(url string) {
	client := must(confluent.NewClient(confluent.NewConfig(url)))
	must(client.Register("go-money", confluent.SchemaInfo{Schema: money}, false))
	refers := confluent.SchemaInfo{Schema: order, References: []confluent.Reference{{Name: "Money", Subject: "go-money", Version: 1}}}
	id := must(client.Register("go-order", refers, false))
	same("by subject and id", must(client.GetBySubjectAndID("go-order", id)).References, refers.References)
	same("id", must(client.GetID("go-order", refers, false)), id)
	same("compatible", must(client.TestCompatibility("go-money", 1, confluent.SchemaInfo{Schema: money})), true)

	serializer := must(avrov2.NewSerializer(client, serde.ValueSerde, avrov2.NewSerializerConfig()))
	data := must(serializer.Serialize("go-users", &User{Name: "Åsa"}))
	deserializer := must(avrov2.NewDeserializer(client, serde.ValueSerde, avrov2.NewDeserializerConfig()))
	var found User
	if err := deserializer.DeserializeInto("go-users", data, &found); err != nil {
		panic(err)
	}
	same("avro", found, User{Name: "Åsa"})

	writes := must(jsonschema.NewSerializer(client, serde.ValueSerde, jsonschema.NewSerializerConfig()))
	text := must(writes.Serialize("go-json", &User{Name: "Bo"}))
	reads := must(jsonschema.NewDeserializer(client, serde.ValueSerde, jsonschema.NewDeserializerConfig()))
	var read User
	if err := reads.DeserializeInto("go-json", text, &read); err != nil {
		panic(err)
	}
	same("json", read, User{Name: "Bo"})
	same("deleted", must(client.DeleteSubject("go-users-value", false)), []int{1})
}

func main() {
	if os.Args[2] == "sr" {
		franz(os.Args[1])
	} else {
		confluentKafka(os.Args[1])
	}
	fmt.Println("as it should be")
}
