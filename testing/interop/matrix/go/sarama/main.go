// The program of sarama.
package main

import (
	"context"
	"errors"
	"time"

	"fencepost.test/matrix/contract"
	"github.com/IBM/sarama"
)

func main() {
	contract.Main("sarama", contract.ModuleVersion("github.com/IBM/sarama"), connect)
}

func connect(bootstrap string) (contract.Client, error) {
	seeds := []string{bootstrap}
	admin, err := sarama.NewClusterAdmin(seeds, settings())
	return &client{seeds, admin}, err
}

type client struct {
	seeds []string
	admin sarama.ClusterAdmin
}

func settings() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Group.Session.Timeout = 10 * time.Second
	config.Consumer.Group.Heartbeat.Interval = 300 * time.Millisecond
	return config
}

func (c *client) Codecs() []string { return []string{"none", "gzip", "snappy", "lz4", "zstd"} }

func (c *client) CreateTopic(_ context.Context, topic string, partitions int) error {
	return c.admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: int32(partitions), ReplicationFactor: 1}, false)
}

func (c *client) Fenced(err error) bool {
	return errors.Is(err, sarama.ErrProducerFenced) || errors.Is(err, sarama.ErrInvalidProducerEpoch)
}

type producer struct{ sarama.SyncProducer }

func (c *client) producer(o contract.ProducerOptions) (*producer, error) {
	config := settings()
	codecs := map[string]sarama.CompressionCodec{
		"gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy, "lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
	}
	config.Producer.Compression = codecs[o.Codec]
	if o.Idempotent || o.Txn != "" {
		config.Producer.Idempotent = true
		config.Net.MaxOpenRequests = 1
		config.Producer.Transaction.ID = o.Txn
	}
	made, err := sarama.NewSyncProducer(c.seeds, config)
	return &producer{made}, err
}

func (c *client) NewProducer(_ context.Context, o contract.ProducerOptions) (contract.Producer, error) {
	return c.producer(o)
}

func (p *producer) Send(_ context.Context, topic string, records []contract.Record) error {
	var all []*sarama.ProducerMessage
	for _, r := range records {
		all = append(all, &sarama.ProducerMessage{
			Topic: topic, Partition: r.Partition, Key: sarama.StringEncoder(r.Key), Value: sarama.StringEncoder(r.Value),
			Headers: []sarama.RecordHeader{{Key: []byte("h"), Value: []byte(r.Header)}},
		})
	}
	err := p.SendMessages(all)
	var each sarama.ProducerErrors
	if errors.As(err, &each) {
		return each[0].Err
	}
	return err
}

func (p *producer) Begin() error                 { return p.BeginTxn() }
func (p *producer) Commit(context.Context) error { return p.CommitTxn() }
func (p *producer) Abort(context.Context) error  { return p.AbortTxn() }

func (p *producer) Close() {
	// A fenced producer has nothing more to say.
	_ = p.SyncProducer.Close()
}

func incoming(m *sarama.ConsumerMessage) contract.Record {
	header := ""
	if len(m.Headers) == 1 && string(m.Headers[0].Key) == "h" {
		header = string(m.Headers[0].Value)
	}
	return contract.Record{Partition: m.Partition, Offset: m.Offset, Key: string(m.Key), Value: string(m.Value), Header: header}
}

func (c *client) Read(ctx context.Context, topic string, partitions int, committed bool) ([][]contract.Record, error) {
	config := settings()
	if committed {
		config.Consumer.IsolationLevel = sarama.ReadCommitted
	}
	config.Consumer.Return.Errors = true
	consumer, err := sarama.NewConsumer(c.seeds, config)
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	read := make([][]contract.Record, partitions)
	for p := range partitions {
		if read[p], err = one(ctx, consumer, topic, int32(p)); err != nil {
			return nil, err
		}
	}
	return read, nil
}

func one(ctx context.Context, consumer sarama.Consumer, topic string, partition int32) ([]contract.Record, error) {
	from, err := consumer.ConsumePartition(topic, partition, sarama.OffsetOldest)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	var read []contract.Record
	for {
		select {
		case m := <-from.Messages():
			if string(m.Value) == contract.End {
				return read, nil
			}
			read = append(read, incoming(m))
		case err := <-from.Errors():
			return nil, err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (c *client) Committed(_ context.Context, group, topic string, partitions int) (map[int32]int64, error) {
	asked := map[string][]int32{}
	for p := range partitions {
		asked[topic] = append(asked[topic], int32(p))
	}
	answer, err := c.admin.ListConsumerGroupOffsets(group, asked)
	if err != nil {
		return nil, err
	}
	found := map[int32]int64{}
	for p, block := range answer.Blocks[topic] {
		if block.Err != sarama.ErrNoError {
			return nil, block.Err
		}
		if block.Offset >= 0 {
			found[p] = block.Offset
		}
	}
	return found, nil
}
