package main

import (
	"context"
	"time"

	"fencepost.test/matrix/contract"
	"github.com/segmentio/kafka-go"
)

func (c *client) Admin(ctx context.Context, topic string) (string, error) {
	return contract.Steps(ctx, append(c.onTopics(topic), c.onGroups(topic)...))
}

func (c *client) onTopics(topic string) []contract.Step {
	const name, value = "retention.ms", "123456"
	return []contract.Step{
		{Name: "CreateTopics", Run: func(ctx context.Context) error { return c.CreateTopic(ctx, topic, 1) }},
		{Name: "ApiVersions", Run: func(ctx context.Context) error {
			found, err := c.low.ApiVersions(ctx, &kafka.ApiVersionsRequest{})
			return contract.Check(err, err == nil && found.Error == nil && len(found.ApiKeys) > 0, found)
		}},
		{Name: "IncrementalAlterConfigs", Run: func(ctx context.Context) error {
			found, err := c.low.IncrementalAlterConfigs(ctx, &kafka.IncrementalAlterConfigsRequest{
				Resources: []kafka.IncrementalAlterConfigsRequestResource{{
					ResourceType: kafka.ResourceTypeTopic, ResourceName: topic,
					Configs: []kafka.IncrementalAlterConfigsRequestConfig{{Name: name, Value: value, ConfigOperation: kafka.ConfigOperationSet}},
				}},
			})
			return contract.Check(err, err == nil && found.Resources[0].Error == nil, found)
		}},
		{Name: "DescribeConfigs", Run: func(ctx context.Context) error {
			found, err := c.low.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{
				Resources: []kafka.DescribeConfigRequestResource{{ResourceType: kafka.ResourceTypeTopic, ResourceName: topic, ConfigNames: []string{name}}},
			})
			return contract.Check(err, err == nil && found.Resources[0].ConfigEntries[0].ConfigValue == value, found)
		}},
		{Name: "CreatePartitions", Run: func(ctx context.Context) error {
			found, err := c.low.CreatePartitions(ctx, &kafka.CreatePartitionsRequest{Topics: []kafka.TopicPartitionsConfig{{Name: topic, Count: 3}}})
			return contract.Check(err, err == nil && found.Errors[topic] == nil, found)
		}},
		{Name: "Metadata", Run: func(ctx context.Context) error {
			found, err := c.low.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{topic}})
			return contract.Check(err, err == nil && len(found.Brokers) == 1 && len(found.Topics[0].Partitions) == 3, found)
		}},
		{Name: "Produce", Run: func(ctx context.Context) error {
			p, err := c.NewProducer(ctx, contract.ProducerOptions{})
			if err != nil {
				return err
			}
			defer p.Close()
			return p.Send(ctx, topic, []contract.Record{{Value: "a"}, {Value: "b"}, {Value: "c"}})
		}},
		{Name: "ListOffsets", Run: func(ctx context.Context) error {
			found, err := c.low.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{topic: {kafka.LastOffsetOf(0)}}})
			return contract.Check(err, err == nil && found.Topics[topic][0].LastOffset == 3, found)
		}},
		{Name: "ElectLeaders", Run: func(ctx context.Context) error {
			found, err := c.low.ElectLeaders(ctx, &kafka.ElectLeadersRequest{Topic: topic, Partitions: []int{0}, Timeout: 5 * time.Second})
			return contract.Check(err, err == nil && found.Error == nil, found)
		}},
	}
}

func (c *client) onGroups(topic string) []contract.Step {
	group := topic + "-group"
	return []contract.Step{
		{Name: "OffsetCommit", Run: func(ctx context.Context) error {
			found, err := c.low.OffsetCommit(ctx, &kafka.OffsetCommitRequest{
				GroupID: group, GenerationID: -1, Topics: map[string][]kafka.OffsetCommit{topic: {{Partition: 0, Offset: 2}}},
			})
			return contract.Check(err, err == nil && found.Topics[topic][0].Error == nil, found)
		}},
		{Name: "OffsetFetch", Run: func(ctx context.Context) error {
			found, err := c.Committed(ctx, group, topic, 3)
			return contract.Check(err, found[0] == 2, found)
		}},
		{Name: "ListGroups", Run: func(ctx context.Context) error {
			found, err := c.low.ListGroups(ctx, &kafka.ListGroupsRequest{})
			there := false
			for i := 0; err == nil && i < len(found.Groups); i++ {
				there = there || found.Groups[i].GroupID == group
			}
			return contract.Check(err, there, found)
		}},
		{Name: "DescribeGroups", Run: func(ctx context.Context) error {
			found, err := c.low.DescribeGroups(ctx, &kafka.DescribeGroupsRequest{GroupIDs: []string{group}})
			return contract.Check(err, err == nil && found.Groups[0].GroupState == "Empty", found)
		}},
		{Name: "DeleteGroups", Run: func(ctx context.Context) error {
			found, err := c.low.DeleteGroups(ctx, &kafka.DeleteGroupsRequest{GroupIDs: []string{group}})
			return contract.Check(err, err == nil && found.Errors[group] == nil, found)
		}},
		{Name: "DeleteTopics", Run: func(ctx context.Context) error {
			found, err := c.low.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{topic}})
			return contract.Check(err, err == nil && found.Errors[topic] == nil, found)
		}},
	}
}
