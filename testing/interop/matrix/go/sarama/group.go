package main

import (
	"context"
	"sync"
	"time"

	"fencepost.test/matrix/contract"
	"github.com/IBM/sarama"
)

const pause = 200 * time.Millisecond

// member turns the sessions of a consumer group into polls.
type member struct {
	group    sarama.ConsumerGroup
	messages chan *sarama.ConsumerMessage
	stop     context.CancelFunc
	ended    chan struct{}
	lock     sync.Mutex
	session  sarama.ConsumerGroupSession
	topic    string
}

func (c *client) member(group, topic string) (*member, error) {
	config := settings()
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	made, err := sarama.NewConsumerGroup(c.seeds, group, config)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	m := &member{group: made, messages: make(chan *sarama.ConsumerMessage), stop: stop, ended: make(chan struct{}), topic: topic}
	go func() {
		defer close(m.ended)
		for ctx.Err() == nil {
			// What goes wrong shows in records that do not come.
			_ = made.Consume(ctx, []string{topic}, m)
		}
	}()
	return m, nil
}

func (c *client) NewMember(_ context.Context, group, topic, protocol string) (contract.Member, error) {
	if protocol == "consumer" {
		return nil, contract.None("the client has only the classic protocol")
	}
	return c.member(group, topic)
}

func (m *member) Setup(session sarama.ConsumerGroupSession) error {
	m.hold(session)
	return nil
}

func (m *member) Cleanup(sarama.ConsumerGroupSession) error {
	m.hold(nil)
	return nil
}

func (m *member) hold(session sarama.ConsumerGroupSession) {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.session = session
}

func (m *member) held() sarama.ConsumerGroupSession {
	m.lock.Lock()
	defer m.lock.Unlock()
	return m.session
}

func (m *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, more := <-claim.Messages():
			if !more {
				return nil
			}
			select {
			case m.messages <- message:
			case <-session.Context().Done():
				return nil
			}
		case <-session.Context().Done():
			return nil
		}
	}
}

func (m *member) Assigned() []int32 {
	if session := m.held(); session != nil {
		return session.Claims()[m.topic]
	}
	return nil
}

func (m *member) poll(ctx context.Context) (came []*sarama.ConsumerMessage) {
	moment := time.After(pause)
	for {
		select {
		case message := <-m.messages:
			came = append(came, message)
			if len(came) == 20 {
				return came
			}
		case <-moment:
			return came
		case <-ctx.Done():
			return came
		}
	}
}

func (m *member) Poll(ctx context.Context) ([]contract.Record, error) {
	var records []contract.Record
	for _, message := range m.poll(ctx) {
		m.held().MarkMessage(message, "")
		records = append(records, incoming(message))
	}
	return records, nil
}

func (m *member) Commit(context.Context) error {
	m.held().Commit()
	return nil
}

func (m *member) Close() {
	m.stop()
	<-m.ended
	// It has left the group with the end of its session.
	_ = m.group.Close()
}

type etl struct {
	*member
	*producer
	group string
}

func (c *client) NewEtl(_ context.Context, group, input, txn string) (contract.Etl, error) {
	m, err := c.member(group, input)
	if err != nil {
		return nil, err
	}
	p, err := c.producer(contract.ProducerOptions{Txn: txn})
	return &etl{m, p, group}, err
}

func (e *etl) Step(ctx context.Context, output string, commit bool) (int, error) {
	came := e.poll(ctx)
	if len(came) == 0 {
		return 0, nil
	}
	if err := e.BeginTxn(); err != nil {
		return 0, err
	}
	metadata := sarama.NewConsumerGroupMetadataFromSession(e.held(), e.group, nil)
	var records []contract.Record
	for _, message := range came {
		records = append(records, incoming(message))
		if err := e.AddMessageToTxnWithGroupMetadata(message, metadata, nil); err != nil {
			return 0, err
		}
	}
	if err := e.Send(ctx, output, records); err != nil {
		return 0, err
	}
	if commit {
		return len(came), e.CommitTxn()
	}
	return len(came), e.AbortTxn()
}

func (e *etl) Close() {
	e.member.Close()
	e.producer.Close()
}
