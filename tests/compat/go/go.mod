module ottla/compat

go 1.22

require github.com/twmb/franz-go v1.18.0

require (
	github.com/klauspost/compress v1.17.8 // indirect
	github.com/pierrec/lz4/v4 v4.1.21 // indirect
	github.com/twmb/franz-go/pkg/kmsg v1.9.0 // indirect
	golang.org/x/crypto v0.23.0 // indirect
)
