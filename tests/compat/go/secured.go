package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// Protection is how a client comes in: the authority that it trusts, its own certificate, its login.
type Protection struct {
	Authority   string // a file in PEM
	Certificate string // a file with the client's key and chain in PEM, or nothing
	Mechanism   string // of SASL, or nothing
	User        string
	Password    string
	IsToken     bool    // whether user and password are a delegation token's
	TokenFile   string  // read again for each login
	Seconds     float64 // how long to write, ten records a second
}

func (asked Protection) options() []kgo.Opt {
	trusted := x509.NewCertPool()
	pem, err := os.ReadFile(asked.Authority)
	check(err)
	if !trusted.AppendCertsFromPEM(pem) {
		check(errors.New("there is no certificate in " + asked.Authority))
	}
	config := &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}
	if asked.Certificate != "" {
		own, err := tls.LoadX509KeyPair(asked.Certificate, asked.Certificate)
		check(err)
		config.Certificates = []tls.Certificate{own}
	}
	options := []kgo.Opt{kgo.DialTLSConfig(config)}
	if asked.Mechanism != "" {
		options = append(options, kgo.SASL(asked.login()))
	}
	return options
}

func (asked Protection) login() sasl.Mechanism {
	known := scram.Auth{User: asked.User, Pass: asked.Password, IsToken: asked.IsToken}
	switch asked.Mechanism {
	case "PLAIN":
		return plain.Auth{User: asked.User, Pass: asked.Password}.AsMechanism()
	case "SCRAM-SHA-256":
		return known.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return known.AsSha512Mechanism()
	case "OAUTHBEARER":
		return oauth.Oauth(func(context.Context) (oauth.Auth, error) {
			token, err := os.ReadFile(asked.TokenFile)
			return oauth.Auth{Token: strings.TrimSpace(string(token))}, err
		})
	}
	check(errors.New("no mechanism: " + asked.Mechanism))
	return nil
}

// secured writes for a while and reads all of it back, protected as the file says in JSON.
func secured(bootstrap, topic, file string) {
	var asked Protection
	text, err := os.ReadFile(file)
	check(err)
	check(json.Unmarshal(text, &asked))
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	seeds := kgo.SeedBrokers(strings.Split(bootstrap, ",")...)
	writer, err := kgo.NewClient(append(asked.options(), seeds, kgo.DefaultProduceTopic(topic), kgo.AllowAutoTopicCreation())...)
	check(err)
	check(writer.Ping(ctx))
	written := 0
	for end := time.Now().Add(time.Duration(asked.Seconds * float64(time.Second))); written == 0 || time.Now().Before(end); written++ {
		check(writer.ProduceSync(ctx, kgo.StringRecord(fmt.Sprintf("value %d", written))).FirstErr())
		time.Sleep(100 * time.Millisecond)
	}
	writer.Close()
	reader, err := kgo.NewClient(append(asked.options(), seeds, kgo.ConsumeTopics(topic), kgo.ConsumerGroup(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	check(err)
	read := 0
	for read < written {
		fetches := reader.PollFetches(ctx)
		check(fetches.Err())
		fetches.EachRecord(func(each *kgo.Record) {
			if string(each.Value) == fmt.Sprintf("value %d", read) {
				read++
			}
		})
	}
	check(reader.CommitUncommittedOffsets(ctx))
	reader.Close()
	say("secured", map[string]int{"written": written, "read": read})
}
