package main

import (
	"context"
	"errors"

	"fencepost.test/matrix/contract"
	"github.com/twmb/franz-go/pkg/kadm"
)

func (c *client) steps(topic string) []contract.Step {
	group, value := topic+"-group", "123456"
	records := []contract.Record{{Value: "a"}, {Value: "b"}, {Value: "c"}}
	return []contract.Step{
		{Name: "CreateTopics", Run: func(ctx context.Context) error { return c.CreateTopic(ctx, topic, 1) }},
		{Name: "DescribeCluster", Run: func(ctx context.Context) error {
			m, err := c.admin.BrokerMetadata(ctx)
			return contract.Check(err, len(m.Brokers) == 1 && m.Cluster != "", m)
		}},
		{Name: "ApiVersions", Run: func(ctx context.Context) error {
			v, err := c.admin.ApiVersions(ctx)
			return contract.Check(err, len(v) == 1, v)
		}},
		{Name: "IncrementalAlterConfigs", Run: func(ctx context.Context) error {
			r, err := c.admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: &value}}, topic)
			return contract.Check(err, len(r) == 1 && r[0].Err == nil, r)
		}},
		{Name: "DescribeConfigs", Run: func(ctx context.Context) error {
			configs, err := c.admin.DescribeTopicConfigs(ctx, topic)
			if err != nil {
				return err
			}
			for _, config := range configs[0].Configs {
				if config.Key == "retention.ms" && config.MaybeValue() == value {
					return nil
				}
			}
			return contract.Refused("retention.ms is not %s", value)
		}},
		{Name: "CreatePartitions", Run: func(ctx context.Context) error {
			r, err := c.admin.UpdatePartitions(ctx, 3, topic)
			return errors.Join(err, r.Error())
		}},
		{Name: "Metadata", Run: func(ctx context.Context) error {
			t, err := c.admin.ListTopics(ctx, topic)
			return contract.Check(err, len(t[topic].Partitions) == 3, t)
		}},
		{Name: "Produce", Run: func(ctx context.Context) error {
			producer, err := c.NewProducer(ctx, contract.ProducerOptions{Idempotent: true})
			if err != nil {
				return err
			}
			defer producer.Close()
			return producer.Send(ctx, topic, records)
		}},
		{Name: "ListOffsets", Run: func(ctx context.Context) error {
			o, err := c.admin.ListEndOffsets(ctx, topic)
			at, _ := o.Lookup(topic, 0)
			return contract.Check(err, at.Offset == 3, o)
		}},
		{Name: "DeleteRecords", Run: func(ctx context.Context) error {
			var to kadm.Offsets
			to.AddOffset(topic, 0, 2, -1)
			if _, err := c.admin.DeleteRecords(ctx, to); err != nil {
				return err
			}
			o, err := c.admin.ListStartOffsets(ctx, topic)
			at, _ := o.Lookup(topic, 0)
			return contract.Check(err, at.Offset == 2, o)
		}},
		{Name: "OffsetCommit", Run: func(ctx context.Context) error {
			var at kadm.Offsets
			at.AddOffset(topic, 0, 2, -1)
			return c.admin.CommitAllOffsets(ctx, group, at)
		}},
		{Name: "ListGroups", Run: func(ctx context.Context) error {
			g, err := c.admin.ListGroups(ctx)
			_, there := g[group]
			return contract.Check(err, there, g)
		}},
		{Name: "DescribeGroups", Run: func(ctx context.Context) error {
			g, err := c.admin.DescribeGroups(ctx, group)
			return contract.Check(err, g[group].State == "Empty", g)
		}},
		{Name: "Lag", Run: func(ctx context.Context) error {
			lags, err := c.admin.Lag(ctx, group)
			lag := lags[group]
			return contract.Check(err, lag.Lag.Total() == 1, lag)
		}},
		{Name: "OffsetDelete", Run: func(ctx context.Context) error {
			r, err := c.admin.DeleteOffsets(ctx, group, kadm.TopicsSet{topic: {0: {}}})
			return errors.Join(err, r.Error())
		}},
		{Name: "DeleteGroups", Run: func(ctx context.Context) error {
			_, err := c.admin.DeleteGroup(ctx, group)
			// Without its last offset the group is gone by itself.
			g, err2 := c.admin.ListGroups(ctx)
			_, there := g[group]
			return contract.Check(err2, !there, err)
		}},
		{Name: "DescribeLogDirs", Run: func(ctx context.Context) error {
			d, err := c.admin.DescribeAllLogDirs(ctx, kadm.TopicsSet{topic: {0: {}}})
			return contract.Check(err, len(d) == 1, d)
		}},
		{Name: "DescribeProducers", Run: func(ctx context.Context) error {
			p, err := c.admin.DescribeProducers(ctx, kadm.TopicsSet{topic: {0: {}}})
			return contract.Check(err, len(p[topic].Partitions[0].ActiveProducers) == 1, p)
		}},
		{Name: "ListTransactions", Run: func(ctx context.Context) error {
			_, err := c.admin.ListTransactions(ctx, nil, nil)
			return err
		}},
		{Name: "ElectLeaders", Run: func(ctx context.Context) error {
			r, err := c.admin.ElectLeaders(ctx, kadm.ElectPreferredReplica, kadm.TopicsSet{topic: {0: {}}})
			return contract.Check(err, len(r) <= 1, r)
		}},
		{Name: "DeleteTopics", Run: func(ctx context.Context) error {
			r, err := c.admin.DeleteTopic(ctx, topic)
			return errors.Join(err, r.Err)
		}},
	}
}
