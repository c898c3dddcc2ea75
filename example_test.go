package kbroker_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/kbroker/kbroker"
)

// A broker in a program: records written to it are there.
func Example() {
	ctx := context.Background()
	b, err := kbroker.Start(ctx, kbroker.Options{})
	if err != nil {
		panic(err)
	}
	defer func() { _ = b.Close() }()

	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.AllowAutoTopicCreation(), kgo.ConsumeTopics("orders"))
	if err != nil {
		panic(err)
	}
	defer client.Close()
	if err = client.ProduceSync(ctx, &kgo.Record{Topic: "orders", Value: []byte("one coffee")}).FirstErr(); err != nil {
		panic(err)
	}
	for _, r := range client.PollFetches(ctx).Records() {
		fmt.Printf("%s at offset %d\n", r.Value, r.Offset)
	}
	// Output: one coffee at offset 0
}

// A broker in a test takes one line and is gone when the test ends.
func ExampleStartTest() {
	var t *testing.T // of the test
	test := func() {
		b := kbroker.StartTest(t)
		client, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()))
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
	}
	_ = test
}

// Settings have Kafka's names.
func ExampleStart() {
	b, err := kbroker.Start(context.Background(), kbroker.Options{
		Listen: []string{"127.0.0.1:0"},
		Sync:   "none",
		Set:    map[string]string{"num.partitions": "3", "auto.create.topics.enable": "false"},
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(b.Close())
	// Output: <nil>
}
