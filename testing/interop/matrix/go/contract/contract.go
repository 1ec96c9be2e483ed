// Package contract is what every Go client of the matrix has in common: what a client must be able to do, how that is
// shown, and how the outcome is printed.
package contract

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"time"
)

// Patience is how long one capability may take.
const Patience = 40 * time.Second

// Record is one record, on its way in or out.
type Record struct {
	Partition          int32
	Offset             int64
	Key, Value, Header string
}

// ProducerOptions chooses what kind of producer is made.
type ProducerOptions struct {
	Codec      string
	Idempotent bool
	Txn        string
}

// Producer sends; the transaction calls are only made where ProducerOptions.Txn is set.
type Producer interface {
	// Send returns when every record is acknowledged.
	Send(ctx context.Context, topic string, records []Record) error
	Begin() error
	Commit(ctx context.Context) error
	Abort(ctx context.Context) error
	Close()
}

// Member is one consumer of a group.
type Member interface {
	// Poll waits a moment and returns what came, which may be nothing.
	Poll(ctx context.Context) ([]Record, error)
	Assigned() []int32
	// Commit commits what Poll has returned.
	Commit(ctx context.Context) error
	Close()
}

// Etl reads from a group, writes what it read elsewhere, and has the offsets in the same transaction.
type Etl interface {
	// Step is one transaction over what one poll gives; it returns the number of records, 0 where nothing came.
	Step(ctx context.Context, output string, commit bool) (int, error)
	Close()
}

// Client is what an adapter offers. A call that the client does not have returns None.
type Client interface {
	Codecs() []string
	CreateTopic(ctx context.Context, topic string, partitions int) error
	NewProducer(ctx context.Context, options ProducerOptions) (Producer, error)
	// Read reads every partition from its start up to the record with the value End.
	Read(ctx context.Context, topic string, partitions int, committed bool) ([][]Record, error)
	NewMember(ctx context.Context, group, topic, protocol string) (Member, error)
	NewEtl(ctx context.Context, group, input, txn string) (Etl, error)
	// Committed is the group's committed offset of each partition.
	Committed(ctx context.Context, group, topic string, partitions int) (map[int32]int64, error)
	// Fenced tells whether an error says that a newer producer has taken over.
	Fenced(err error) bool
	// Admin does what an administrator does, and names the calls.
	Admin(ctx context.Context, scope string) (string, error)
}

// End is the value of the last record of a partition.
const End = "end"

// None says that the client lacks what is asked for.
type None string

func (n None) Error() string { return string(n) }

// Refused is the outcome where something was otherwise than it has to be.
func Refused(format string, values ...any) error { return fmt.Errorf(format, values...) }

// ModuleVersion is the version of a module in this program.
func ModuleVersion(path string) string {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == path {
			return module.Version
		}
	}
	return "unknown"
}

type line struct {
	Client     string `json:"client"`
	Version    string `json:"version"`
	Capability string `json:"capability"`
	Result     string `json:"result"`
	Detail     string `json:"detail"`
}

// Main runs the capabilities named on the command line: BOOTSTRAP SCOPE CAPABILITY…
func Main(name, version string, connect func(bootstrap string) (Client, error)) {
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "arguments: BOOTSTRAP SCOPE CAPABILITY…")
		os.Exit(2)
	}
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	for _, capability := range os.Args[3:] {
		result, detail := one(connect, os.Args[1], os.Args[2], capability)
		if err := out.Encode(line{name, version, capability, result, detail}); err != nil {
			panic(err)
		}
	}
}

func one(connect func(string) (Client, error), bootstrap, scope, capability string) (result, detail string) {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	type outcome struct {
		detail string
		err    error
	}
	done := make(chan outcome, 1)
	go func() {
		client, err := connect(bootstrap)
		if err != nil {
			done <- outcome{"", err}
			return
		}
		detail, err := run(ctx, client, scope, capability)
		done <- outcome{detail, err}
	}()
	select {
	case o := <-done:
		var none None
		switch {
		case errors.As(o.err, &none):
			return "none", none.Error()
		case o.err != nil:
			return "fail", o.err.Error()
		}
		return "pass", o.detail
	case <-time.After(Patience + 5*time.Second):
		return "fail", "no end in time"
	}
}
