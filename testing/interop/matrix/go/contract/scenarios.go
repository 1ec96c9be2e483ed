package contract

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

func run(ctx context.Context, client Client, scope, capability string) (string, error) {
	scope += "-" + capability
	switch capability {
	case "produce":
		return produce(ctx, client, scope)
	case "idempotent":
		return idempotent(ctx, client, scope)
	case "commit":
		return commit(ctx, client, scope)
	case "abort":
		return abort(ctx, client, scope)
	case "fencing":
		return fencing(ctx, client, scope)
	case "offsets":
		return offsets(ctx, client, scope)
	case "classic", "consumer":
		return group(ctx, client, scope, capability)
	case "admin":
		return client.Admin(ctx, scope)
	}
	return "", Refused("no capability named %s", capability)
}

// create makes topics and waits a moment: with Apache Kafka a broker hears of them later than the controller answers.
func create(ctx context.Context, client Client, partitions int, topics ...string) error {
	for _, topic := range topics {
		if err := client.CreateTopic(ctx, topic, partitions); err != nil {
			return err
		}
	}
	time.Sleep(300 * time.Millisecond)
	return nil
}

// made is `count` records, dealt out over the partitions in turn.
func made(prefix string, count, partitions int) []Record {
	records := make([]Record, count)
	for i := range records {
		n := fmt.Sprint(i)
		records[i] = Record{Partition: int32(i % partitions), Key: "k" + n, Value: prefix + n, Header: "h" + n}
	}
	return records
}

func send(ctx context.Context, client Client, options ProducerOptions, topic string, records []Record) error {
	producer, err := client.NewProducer(ctx, options)
	if err != nil {
		return err
	}
	defer producer.Close()
	return producer.Send(ctx, topic, records)
}

// seal puts the last record on every partition.
func seal(ctx context.Context, client Client, topic string, partitions int) error {
	records := made("", partitions, partitions)
	for i := range records {
		records[i].Value = End
	}
	return send(ctx, client, ProducerOptions{}, topic, records)
}

// holds reads a sealed topic, and compares it with what was sent, each partition in order.
func holds(ctx context.Context, client Client, topic string, partitions int, committed bool, sent []Record) error {
	read, err := client.Read(ctx, topic, partitions, committed)
	if err != nil {
		return err
	}
	wanted := make([][]Record, partitions)
	for _, r := range sent {
		wanted[r.Partition] = append(wanted[r.Partition], r)
	}
	for p := range partitions {
		last := int64(-1)
		for i := range read[p] {
			if read[p][i].Offset <= last {
				return Refused("%s-%d: offset %d after %d", topic, p, read[p][i].Offset, last)
			}
			last = read[p][i].Offset
			read[p][i].Offset = 0
		}
		if !slices.Equal(read[p], wanted[p]) {
			return Refused("%s-%d: wanted %s, read %s", topic, p, short(wanted[p]), short(read[p]))
		}
	}
	return nil
}

func short(records []Record) string {
	var values []string
	for _, r := range records {
		values = append(values, r.Value)
	}
	if len(values) > 12 {
		values = append(values[:12], "…")
	}
	return fmt.Sprintf("%d records [%s]", len(records), strings.Join(values, " "))
}

func produce(ctx context.Context, client Client, scope string) (string, error) {
	const partitions = 3
	if err := create(ctx, client, partitions, scope); err != nil {
		return "", err
	}
	var sent []Record
	for _, codec := range client.Codecs() {
		records := made(codec+"-", 60, partitions)
		if err := send(ctx, client, ProducerOptions{Codec: codec}, scope, records); err != nil {
			return "", fmt.Errorf("%s: %w", codec, err)
		}
		sent = append(sent, records...)
	}
	if err := seal(ctx, client, scope, partitions); err != nil {
		return "", err
	}
	return strings.Join(client.Codecs(), ", "), holds(ctx, client, scope, partitions, false, sent)
}

func idempotent(ctx context.Context, client Client, scope string) (string, error) {
	const partitions = 3
	if err := create(ctx, client, partitions, scope); err != nil {
		return "", err
	}
	producer, err := client.NewProducer(ctx, ProducerOptions{Idempotent: true})
	if err != nil {
		return "", err
	}
	defer producer.Close()
	sent := made("v", 3000, partitions)
	for chunk := range slices.Chunk(sent, 300) {
		if err := producer.Send(ctx, scope, chunk); err != nil {
			return "", err
		}
	}
	if err := seal(ctx, client, scope, partitions); err != nil {
		return "", err
	}
	return "", holds(ctx, client, scope, partitions, true, sent)
}

// transact is one transaction on two topics.
func transact(ctx context.Context, producer Producer, topics []string, records []Record, commit bool) error {
	if err := producer.Begin(); err != nil {
		return err
	}
	for _, topic := range topics {
		if err := producer.Send(ctx, topic, records); err != nil {
			return err
		}
	}
	if commit {
		return producer.Commit(ctx)
	}
	return producer.Abort(ctx)
}

// transactions runs some of them on two topics and compares what both kinds of readers see.
func transactions(ctx context.Context, client Client, scope string, commits []bool) (string, error) {
	const partitions = 2
	topics := []string{scope + "-a", scope + "-b"}
	if err := create(ctx, client, partitions, topics...); err != nil {
		return "", err
	}
	producer, err := client.NewProducer(ctx, ProducerOptions{Txn: scope})
	if err != nil {
		return "", err
	}
	defer producer.Close()
	var all, kept []Record
	for n, commit := range commits {
		records := made(fmt.Sprintf("t%d-", n), 20, partitions)
		if err := transact(ctx, producer, topics, records, commit); err != nil {
			return "", fmt.Errorf("transaction %d: %w", n, err)
		}
		all = append(all, records...)
		if commit {
			kept = append(kept, records...)
		}
	}
	for _, topic := range topics {
		if err := seal(ctx, client, topic, partitions); err != nil {
			return "", err
		}
		if err := holds(ctx, client, topic, partitions, true, kept); err != nil {
			return "", fmt.Errorf("read_committed: %w", err)
		}
		if err := holds(ctx, client, topic, partitions, false, all); err != nil {
			return "", fmt.Errorf("read_uncommitted: %w", err)
		}
	}
	return "", nil
}

func commit(ctx context.Context, client Client, scope string) (string, error) {
	return transactions(ctx, client, scope, []bool{true, true, true, true, true})
}

func abort(ctx context.Context, client Client, scope string) (string, error) {
	return transactions(ctx, client, scope, []bool{true, false, true, false, false, true})
}

func fencing(ctx context.Context, client Client, scope string) (string, error) {
	if err := create(ctx, client, 1, scope); err != nil {
		return "", err
	}
	old, err := client.NewProducer(ctx, ProducerOptions{Txn: scope})
	if err != nil {
		return "", err
	}
	defer old.Close()
	if err := transact(ctx, old, []string{scope}, made("first", 1, 1), true); err != nil {
		return "", err
	}
	if err := old.Begin(); err != nil {
		return "", err
	}
	if err := old.Send(ctx, scope, made("open", 1, 1)); err != nil {
		return "", err
	}
	next, err := client.NewProducer(ctx, ProducerOptions{Txn: scope})
	if err != nil {
		return "", err
	}
	defer next.Close()
	if err := transact(ctx, next, []string{scope}, made("next", 1, 1), true); err != nil {
		return "", fmt.Errorf("the new instance: %w", err)
	}
	fenced := old.Send(ctx, scope, made("late", 1, 1))
	if fenced == nil {
		fenced = old.Commit(ctx)
	}
	if fenced == nil {
		return "", Refused("the old instance could commit")
	}
	if !client.Fenced(fenced) {
		return "", fmt.Errorf("the old instance is not told that it is fenced: %w", fenced)
	}
	if err := seal(ctx, client, scope, 1); err != nil {
		return "", err
	}
	return "", holds(ctx, client, scope, 1, true, append(made("first", 1, 1), made("next", 1, 1)...))
}

func offsets(ctx context.Context, client Client, scope string) (string, error) {
	const partitions, count = 2, 60
	input, output, name := scope+"-in", scope+"-out", scope+"-group"
	if err := create(ctx, client, partitions, input, output); err != nil {
		return "", err
	}
	sent := made("v", count, partitions)
	if err := send(ctx, client, ProducerOptions{}, input, sent); err != nil {
		return "", err
	}
	// What is aborted is read again by the next member.
	aborted, err := steps(ctx, client, name, scope, 1, false)
	if err != nil {
		return "", fmt.Errorf("aborting: %w", err)
	}
	if found, err := client.Committed(ctx, name, input, partitions); err != nil || len(found) != 0 {
		return "", Refused("after the abort offsets %v are committed (error %v)", found, err)
	}
	if _, err := steps(ctx, client, name, scope, count, true); err != nil {
		return "", fmt.Errorf("committing: %w", err)
	}
	wanted := map[int32]int64{0: count / partitions, 1: count / partitions}
	if found, err := client.Committed(ctx, name, input, partitions); err != nil || !maps.Equal(found, wanted) {
		return "", Refused("offsets %v are committed, wanted %v (error %v)", found, wanted, err)
	}
	if err := seal(ctx, client, output, partitions); err != nil {
		return "", err
	}
	if err := holds(ctx, client, output, partitions, true, sent); err != nil {
		return "", err
	}
	everything, err := client.Read(ctx, output, partitions, false)
	if err == nil && len(everything[0])+len(everything[1]) != count+aborted {
		err = Refused("%d aborted records, but read_uncommitted sees %s and %s", aborted, short(everything[0]), short(everything[1]))
	}
	return "", err
}

// steps is one life of a worker: transactions until so many records have gone through.
func steps(ctx context.Context, client Client, group, scope string, count int, commit bool) (int, error) {
	etl, err := client.NewEtl(ctx, group, scope+"-in", scope)
	if err != nil {
		return 0, err
	}
	defer etl.Close()
	done := 0
	for done < count {
		n, err := etl.Step(ctx, scope+"-out", commit)
		if err != nil {
			return done, err
		}
		done += n
		if ctx.Err() != nil {
			return done, Refused("%d of %d records in time", done, count)
		}
	}
	return done, nil
}

func group(ctx context.Context, client Client, scope, protocol string) (string, error) {
	const partitions = 4
	if err := create(ctx, client, partitions, scope); err != nil {
		return "", err
	}
	a, err := client.NewMember(ctx, scope, scope, protocol)
	if err != nil {
		return "", err
	}
	defer func() { a.Close() }()
	if err := assigned(ctx, partitions, a); err != nil {
		return "", fmt.Errorf("alone: %w", err)
	}
	b, err := client.NewMember(ctx, scope, scope, protocol)
	if err != nil {
		return "", err
	}
	if err := assigned(ctx, partitions, a, b); err != nil {
		return "", fmt.Errorf("two: %w", err)
	}
	first := made("v", 200, partitions)
	if err := consumed(ctx, client, scope, first, a, b); err != nil {
		return "", fmt.Errorf("two: %w", err)
	}
	b.Close()
	if err := assigned(ctx, partitions, a); err != nil {
		return "", fmt.Errorf("alone again: %w", err)
	}
	if err := consumed(ctx, client, scope, made("w", 40, partitions), a); err != nil {
		return "", fmt.Errorf("alone again: %w", err)
	}
	wanted := map[int32]int64{0: 60, 1: 60, 2: 60, 3: 60}
	if found, err := client.Committed(ctx, scope, scope, partitions); err != nil || !maps.Equal(found, wanted) {
		return "", Refused("offsets %v are committed, wanted %v (error %v)", found, wanted, err)
	}
	return "", nil
}

// assigned waits until the members share the partitions evenly.
func assigned(ctx context.Context, partitions int, members ...Member) error {
	for {
		all, even := []int32{}, true
		for _, m := range members {
			if came, err := m.Poll(ctx); err != nil || len(came) != 0 {
				return Refused("polling gave %s (error %v)", short(came), err)
			}
		}
		for _, m := range members {
			own := m.Assigned()
			even = even && len(own) == partitions/len(members)
			all = append(all, own...)
		}
		slices.Sort(all)
		if even && reflect.DeepEqual(all, []int32{0, 1, 2, 3}) {
			return nil
		}
		if ctx.Err() != nil {
			return Refused("assigned %v in the end", all)
		}
	}
}

// consumed sends records and has the members read each of them once, in order, and commit.
func consumed(ctx context.Context, client Client, topic string, records []Record, members ...Member) error {
	if err := send(ctx, client, ProducerOptions{}, topic, records); err != nil {
		return err
	}
	wanted := map[int32][]string{}
	for _, r := range records {
		wanted[r.Partition] = append(wanted[r.Partition], r.Value)
	}
	read, count := map[int32][]string{}, 0
	for count < len(records) {
		for _, m := range members {
			came, err := m.Poll(ctx)
			if err != nil {
				return err
			}
			for _, r := range came {
				if !slices.Contains(m.Assigned(), r.Partition) {
					return Refused("a record of partition %d came, which is not assigned", r.Partition)
				}
				read[r.Partition] = append(read[r.Partition], r.Value)
				count++
			}
		}
		if ctx.Err() != nil {
			return Refused("%d of %d records in time", count, len(records))
		}
	}
	if !reflect.DeepEqual(read, wanted) {
		return Refused("read %v, wanted %v", read, wanted)
	}
	for _, m := range members {
		if err := m.Commit(ctx); err != nil {
			return fmt.Errorf("commit: %w", err)
		}
	}
	return nil
}
