// The program of franz-go.
package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"fencepost.test/matrix/contract"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const pause = 200 * time.Millisecond

func main() {
	contract.Main("franz-go", contract.ModuleVersion("github.com/twmb/franz-go"), connect)
}

func connect(bootstrap string) (contract.Client, error) {
	seeds := kgo.SeedBrokers(bootstrap)
	plain, err := kgo.NewClient(seeds)
	if err != nil {
		return nil, err
	}
	return &client{seeds, kadm.NewClient(plain)}, nil
}

type client struct {
	seeds kgo.Opt
	admin *kadm.Client
}

func (c *client) Codecs() []string { return []string{"none", "gzip", "snappy", "lz4", "zstd"} }

func (c *client) CreateTopic(ctx context.Context, topic string, partitions int) error {
	made, err := c.admin.CreateTopic(ctx, int32(partitions), 1, nil, topic)
	return errors.Join(err, made.Err)
}

func (c *client) Fenced(err error) bool {
	return errors.Is(err, kerr.ProducerFenced) || errors.Is(err, kerr.InvalidProducerEpoch)
}

func codec(name string) kgo.CompressionCodec {
	switch name {
	case "gzip":
		return kgo.GzipCompression()
	case "snappy":
		return kgo.SnappyCompression()
	case "lz4":
		return kgo.Lz4Compression()
	case "zstd":
		return kgo.ZstdCompression()
	}
	return kgo.NoCompression()
}

type producer struct {
	client *kgo.Client
	// This client hands out producer ids when it first sends.
	transactional bool
}

func (c *client) NewProducer(ctx context.Context, o contract.ProducerOptions) (contract.Producer, error) {
	options := []kgo.Opt{c.seeds, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(codec(o.Codec))}
	if o.Txn != "" {
		options = append(options, kgo.TransactionalID(o.Txn))
	} else if !o.Idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	made, err := kgo.NewClient(options...)
	if err != nil {
		return nil, err
	}
	if o.Txn != "" {
		_, _, err = made.ProducerID(ctx)
	}
	return &producer{made, o.Txn != ""}, err
}

func outgoing(topic string, r contract.Record) *kgo.Record {
	return &kgo.Record{
		Topic: topic, Partition: r.Partition, Key: []byte(r.Key), Value: []byte(r.Value),
		Headers: []kgo.RecordHeader{{Key: "h", Value: []byte(r.Header)}},
	}
}

func incoming(r *kgo.Record) contract.Record {
	header := ""
	if len(r.Headers) == 1 && r.Headers[0].Key == "h" {
		header = string(r.Headers[0].Value)
	}
	return contract.Record{Partition: r.Partition, Offset: r.Offset, Key: string(r.Key), Value: string(r.Value), Header: header}
}

func (p *producer) Send(ctx context.Context, topic string, records []contract.Record) error {
	var all []*kgo.Record
	for _, r := range records {
		all = append(all, outgoing(topic, r))
	}
	return p.client.ProduceSync(ctx, all...).FirstErr()
}

func (p *producer) Begin() error { return p.client.BeginTransaction() }

func (p *producer) Commit(ctx context.Context) error {
	return p.client.EndTransaction(ctx, kgo.TryCommit)
}

func (p *producer) Abort(ctx context.Context) error {
	return p.client.EndTransaction(ctx, kgo.TryAbort)
}

func (p *producer) Close() { p.client.Close() }

func (c *client) Read(ctx context.Context, topic string, partitions int, committed bool) ([][]contract.Record, error) {
	from := map[int32]kgo.Offset{}
	for p := range partitions {
		from[int32(p)] = kgo.NewOffset().AtStart()
	}
	level := kgo.ReadUncommitted()
	if committed {
		level = kgo.ReadCommitted()
	}
	reader, err := kgo.NewClient(c.seeds, kgo.FetchIsolationLevel(level),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}))
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	read, open := make([][]contract.Record, partitions), partitions
	for open > 0 {
		fetches := reader.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if string(r.Value) == contract.End {
				open--
			} else {
				read[r.Partition] = append(read[r.Partition], incoming(r))
			}
		})
	}
	return read, nil
}

type member struct {
	client *kgo.Client
	lock   sync.Mutex
	own    map[int32]bool
}

func (c *client) group(group, topic, protocol string) []kgo.Opt {
	options := []kgo.Opt{
		c.seeds, kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	}
	if protocol == "consumer" {
		return append(options, kgo.Balancers(kgo.RangeBalancer()), kgo.ServerSideBalancer())
	}
	return append(options, kgo.SessionTimeout(10*time.Second), kgo.HeartbeatInterval(300*time.Millisecond))
}

func (c *client) NewMember(_ context.Context, group, topic, protocol string) (contract.Member, error) {
	m := &member{own: map[int32]bool{}}
	change := func(to bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			m.lock.Lock()
			defer m.lock.Unlock()
			for _, p := range partitions[topic] {
				if to {
					m.own[p] = true
				} else {
					delete(m.own, p)
				}
			}
		}
	}
	made, err := kgo.NewClient(append(c.group(group, topic, protocol), kgo.OnPartitionsAssigned(change(true)),
		kgo.OnPartitionsRevoked(change(false)), kgo.OnPartitionsLost(change(false)))...)
	m.client = made
	return m, err
}

func (m *member) Assigned() (own []int32) {
	m.lock.Lock()
	defer m.lock.Unlock()
	for p := range m.own {
		own = append(own, p)
	}
	return own
}

func polled(ctx context.Context, poll func(context.Context) kgo.Fetches) ([]contract.Record, error) {
	moment, cancel := context.WithTimeout(ctx, pause)
	defer cancel()
	fetches := poll(moment)
	if err := fetches.Err(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return nil, err
	}
	var came []contract.Record
	fetches.EachRecord(func(r *kgo.Record) { came = append(came, incoming(r)) })
	return came, nil
}

func (m *member) Poll(ctx context.Context) ([]contract.Record, error) {
	return polled(ctx, m.client.PollFetches)
}

func (m *member) Commit(ctx context.Context) error { return m.client.CommitUncommittedOffsets(ctx) }

func (m *member) Close() { m.client.Close() }

func (c *client) Committed(ctx context.Context, group, topic string, partitions int) (map[int32]int64, error) {
	responses, err := c.admin.FetchOffsets(ctx, group)
	if err != nil {
		return nil, err
	}
	found := map[int32]int64{}
	responses.Each(func(r kadm.OffsetResponse) {
		if r.Topic == topic && r.At >= 0 {
			found[r.Partition] = r.At
		}
	})
	return found, responses.Error()
}

type etl struct{ session *kgo.GroupTransactSession }

func (c *client) NewEtl(_ context.Context, group, input, txn string) (contract.Etl, error) {
	session, err := kgo.NewGroupTransactSession(append(c.group(group, input, "classic"), kgo.TransactionalID(txn),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))...)
	return &etl{session}, err
}

func (e *etl) Step(ctx context.Context, output string, commit bool) (int, error) {
	came, err := polled(ctx, e.session.PollFetches)
	if err != nil || len(came) == 0 {
		return 0, err
	}
	if err := e.session.Begin(); err != nil {
		return 0, err
	}
	for _, r := range came {
		if err := e.session.ProduceSync(ctx, outgoing(output, r)).FirstErr(); err != nil {
			return 0, err
		}
	}
	committed, err := e.session.End(ctx, kgo.TransactionEndTry(commit))
	if commit && !committed {
		return 0, err
	}
	return len(came), err
}

func (e *etl) Close() { e.session.Close() }

func (c *client) Admin(ctx context.Context, scope string) (string, error) {
	return contract.Steps(ctx, c.steps(scope))
}
