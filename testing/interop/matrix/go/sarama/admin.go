package main

import (
	"context"

	"fencepost.test/matrix/contract"
	"github.com/IBM/sarama"
)

func (c *client) Admin(ctx context.Context, topic string) (string, error) {
	return contract.Steps(ctx, append(c.onTopics(topic), c.onGroups(topic)...))
}

func (c *client) onTopics(topic string) []contract.Step {
	value := "123456"
	resource := sarama.ConfigResource{Type: sarama.TopicResource, Name: topic, ConfigNames: []string{"retention.ms"}}
	return []contract.Step{
		{Name: "CreateTopics", Run: func(ctx context.Context) error { return c.CreateTopic(ctx, topic, 1) }},
		{Name: "DescribeCluster", Run: func(context.Context) error {
			brokers, _, err := c.admin.DescribeCluster()
			return contract.Check(err, len(brokers) == 1, brokers)
		}},
		{Name: "IncrementalAlterConfigs", Run: func(context.Context) error {
			entry := sarama.IncrementalAlterConfigsEntry{Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &value}
			return c.admin.IncrementalAlterConfig(sarama.TopicResource, topic, map[string]sarama.IncrementalAlterConfigsEntry{"retention.ms": entry}, false)
		}},
		{Name: "DescribeConfigs", Run: func(context.Context) error {
			found, err := c.admin.DescribeConfig(resource)
			return contract.Check(err, len(found) == 1 && found[0].Value == value, found)
		}},
		{Name: "CreatePartitions", Run: func(context.Context) error { return c.admin.CreatePartitions(topic, 3, nil, false) }},
		{Name: "Metadata", Run: func(context.Context) error {
			found, err := c.admin.DescribeTopics([]string{topic})
			return contract.Check(err, len(found) == 1 && len(found[0].Partitions) == 3, found)
		}},
		{Name: "ListTopics", Run: func(context.Context) error {
			found, err := c.admin.ListTopics()
			return contract.Check(err, found[topic].NumPartitions == 3, found)
		}},
		{Name: "DeleteRecords", Run: func(ctx context.Context) error {
			p, err := c.producer(contract.ProducerOptions{Idempotent: true})
			if err != nil {
				return err
			}
			defer p.Close()
			if err := p.Send(ctx, topic, []contract.Record{{Value: "a"}, {Value: "b"}, {Value: "c"}}); err != nil {
				return err
			}
			return c.admin.DeleteRecords(topic, map[int32]int64{0: 2})
		}},
		{Name: "ListOffsets", Run: func(context.Context) error {
			for asked, wanted := range map[int64]int64{sarama.OffsetOldest: 2, sarama.OffsetNewest: 3} {
				found, err := c.admin.ListOffsets(map[string]map[int32]int64{topic: {0: asked}}, nil)
				if err != nil || found[topic][0].Offset != wanted {
					return contract.Refused("found %+v (error %v)", found[topic][0], err)
				}
			}
			return nil
		}},
		{Name: "DescribeLogDirs", Run: func(context.Context) error {
			brokers, _, err := c.admin.DescribeCluster()
			if err != nil {
				return err
			}
			found, err := c.admin.DescribeLogDirs([]int32{brokers[0].ID()})
			return contract.Check(err, len(found) == 1, found)
		}},
		{Name: "ElectLeaders", Run: func(context.Context) error {
			found, err := c.admin.ElectLeaders(sarama.PreferredElection, map[string][]int32{topic: {0}})
			return contract.Check(err, len(found) <= 1, found)
		}},
	}
}

func (c *client) onGroups(topic string) []contract.Step {
	group := topic + "-group"
	return []contract.Step{
		{Name: "OffsetCommit", Run: func(context.Context) error {
			at := map[string]map[int32]sarama.OffsetAndMetadata{topic: {0: {Offset: 2, LeaderEpoch: -1}}}
			_, err := c.admin.AlterConsumerGroupOffsets(group, at, nil)
			return err
		}},
		{Name: "ListGroups", Run: func(context.Context) error {
			found, err := c.admin.ListConsumerGroups()
			_, there := found[group]
			return contract.Check(err, there, found)
		}},
		{Name: "DescribeGroups", Run: func(context.Context) error {
			found, err := c.admin.DescribeConsumerGroups([]string{group})
			return contract.Check(err, len(found) == 1 && found[0].State == "Empty", found)
		}},
		{Name: "OffsetDelete", Run: func(context.Context) error { return c.admin.DeleteConsumerGroupOffset(group, topic, 0) }},
		{Name: "DeleteGroups", Run: func(context.Context) error {
			// Without its last offset the group is gone by itself.
			err := c.admin.DeleteConsumerGroup(group)
			found, listed := c.admin.ListConsumerGroups()
			_, there := found[group]
			return contract.Check(listed, !there, err)
		}},
		{Name: "DeleteTopics", Run: func(context.Context) error { return c.admin.DeleteTopic(topic) }},
	}
}
