// The program of segmentio/kafka-go.
package main

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"fencepost.test/matrix/contract"
	"github.com/segmentio/kafka-go"
)

const (
	pause   = 200 * time.Millisecond
	noWrite = contract.None("the client's writer has no producer id")
)

func main() {
	contract.Main("segmentio/kafka-go", contract.ModuleVersion("github.com/segmentio/kafka-go"), connect)
}

func connect(bootstrap string) (contract.Client, error) {
	address, err := net.ResolveTCPAddr("tcp", bootstrap)
	return &client{bootstrap, address, &kafka.Client{Addr: address}}, err
}

type client struct {
	seed    string
	address net.Addr
	low     *kafka.Client
}

func (c *client) Codecs() []string { return []string{"none", "gzip", "snappy", "lz4", "zstd"} }

func (c *client) Fenced(error) bool { return false }

func (c *client) CreateTopic(ctx context.Context, topic string, partitions int) error {
	answer, err := c.low.CreateTopics(ctx, &kafka.CreateTopicsRequest{
		Topics: []kafka.TopicConfig{{Topic: topic, NumPartitions: partitions, ReplicationFactor: 1}},
	})
	if err != nil {
		return err
	}
	return answer.Errors[topic]
}

type producer struct{ *kafka.Writer }

// manual puts a message where its header says.
type manual map[string]int32

func (m manual) Balance(message kafka.Message, partitions ...int) int {
	return int(m[string(message.Key)])
}

func (c *client) NewProducer(_ context.Context, o contract.ProducerOptions) (contract.Producer, error) {
	if o.Idempotent || o.Txn != "" {
		return nil, noWrite
	}
	codecs := map[string]kafka.Compression{"gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd}
	return &producer{&kafka.Writer{
		Addr: c.address, RequiredAcks: kafka.RequireAll, BatchTimeout: 10 * time.Millisecond, Compression: codecs[o.Codec],
	}}, nil
}

func (p *producer) Send(ctx context.Context, topic string, records []contract.Record) error {
	where, all := manual{}, []kafka.Message{}
	for _, r := range records {
		where[r.Key] = r.Partition
		all = append(all, kafka.Message{
			Topic: topic, Key: []byte(r.Key), Value: []byte(r.Value), Headers: []kafka.Header{{Key: "h", Value: []byte(r.Header)}},
		})
	}
	p.Balancer = where
	return p.WriteMessages(ctx, all...)
}

func (p *producer) Begin() error                 { return noWrite }
func (p *producer) Commit(context.Context) error { return noWrite }
func (p *producer) Abort(context.Context) error  { return noWrite }

func (p *producer) Close() {
	// Everything was acknowledged.
	_ = p.Writer.Close()
}

func incoming(m kafka.Message) contract.Record {
	header := ""
	if len(m.Headers) == 1 && m.Headers[0].Key == "h" {
		header = string(m.Headers[0].Value)
	}
	return contract.Record{Partition: int32(m.Partition), Offset: m.Offset, Key: string(m.Key), Value: string(m.Value), Header: header}
}

func (c *client) Read(ctx context.Context, topic string, partitions int, committed bool) ([][]contract.Record, error) {
	read := make([][]contract.Record, partitions)
	for p := range partitions {
		config := kafka.ReaderConfig{Brokers: []string{c.seed}, Topic: topic, Partition: p, MaxWait: pause, IsolationLevel: kafka.ReadUncommitted}
		if committed {
			config.IsolationLevel = kafka.ReadCommitted
		}
		reader := kafka.NewReader(config)
		defer reader.Close()
		for {
			m, err := reader.ReadMessage(ctx)
			if err != nil {
				return nil, err
			}
			if string(m.Value) == contract.End {
				break
			}
			read[p] = append(read[p], incoming(m))
		}
	}
	return read, nil
}

// member follows the generations of a group: the client's reader does not tell what it is assigned.
type member struct {
	client  *client
	group   *kafka.ConsumerGroup
	topic   string
	records chan contract.Record
	stop    context.CancelFunc
	ended   chan struct{}
	lock    sync.Mutex
	now     *kafka.Generation
	next    map[int]int64
}

func (c *client) NewMember(_ context.Context, group, topic, protocol string) (contract.Member, error) {
	if protocol == "consumer" {
		return nil, contract.None("the client has only the classic protocol")
	}
	made, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID: group, Brokers: []string{c.seed}, Topics: []string{topic}, StartOffset: kafka.FirstOffset,
		HeartbeatInterval: 300 * time.Millisecond, SessionTimeout: 10 * time.Second, JoinGroupBackoff: pause,
		GroupBalancers: []kafka.GroupBalancer{kafka.RangeGroupBalancer{}},
	})
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	m := &member{client: c, group: made, topic: topic, records: make(chan contract.Record), stop: stop, ended: make(chan struct{}), next: map[int]int64{}}
	go m.follow(ctx)
	return m, nil
}

func (m *member) follow(ctx context.Context) {
	defer close(m.ended)
	for ctx.Err() == nil {
		generation, err := m.group.Next(ctx)
		if err != nil {
			// What goes wrong shows in records that do not come.
			continue
		}
		m.lock.Lock()
		m.now, m.next = generation, map[int]int64{}
		m.lock.Unlock()
		for _, assigned := range generation.Assignments[m.topic] {
			generation.Start(func(ctx context.Context) { m.read(ctx, assigned) })
		}
		generation.Start(func(ctx context.Context) {
			<-ctx.Done()
			m.lock.Lock()
			m.now = nil
			m.lock.Unlock()
		})
	}
}

func (m *member) read(ctx context.Context, from kafka.PartitionAssignment) {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{m.client.seed}, Topic: m.topic, Partition: from.ID, MaxWait: pause,
	})
	defer reader.Close()
	if reader.SetOffset(from.Offset) != nil {
		return
	}
	for {
		message, err := reader.ReadMessage(ctx)
		if err != nil {
			return
		}
		select {
		case m.records <- incoming(message):
		case <-ctx.Done():
			return
		}
	}
}

func (m *member) Poll(ctx context.Context) (came []contract.Record, err error) {
	moment := time.After(pause)
	for {
		select {
		case r := <-m.records:
			m.lock.Lock()
			m.next[int(r.Partition)] = r.Offset + 1
			m.lock.Unlock()
			came = append(came, r)
		case <-moment:
			return came, nil
		case <-ctx.Done():
			return came, nil
		}
	}
}

func (m *member) Assigned() (own []int32) {
	m.lock.Lock()
	defer m.lock.Unlock()
	if m.now == nil {
		return nil
	}
	for _, assigned := range m.now.Assignments[m.topic] {
		own = append(own, int32(assigned.ID))
	}
	return own
}

func (m *member) Commit(context.Context) error {
	m.lock.Lock()
	defer m.lock.Unlock()
	if m.now == nil {
		return errors.New("no generation")
	}
	return m.now.CommitOffsets(map[string]map[int]int64{m.topic: m.next})
}

func (m *member) Close() {
	m.stop()
	<-m.ended
	// It leaves the group.
	_ = m.group.Close()
}

func (c *client) NewEtl(context.Context, string, string, string) (contract.Etl, error) {
	return nil, noWrite
}

func (c *client) Committed(ctx context.Context, group, topic string, partitions int) (map[int32]int64, error) {
	offsets, err := c.low.ConsumerOffsets(ctx, kafka.TopicAndGroup{Topic: topic, GroupId: group})
	found := map[int32]int64{}
	for p, at := range offsets {
		if at >= 0 {
			found[int32(p)] = at
		}
	}
	return found, err
}
