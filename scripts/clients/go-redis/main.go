// Common uses of go-redis, on the server at 127.0.0.1:PORT. Any difference from Redis ends the program.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

var ctx, _ = context.WithTimeout(context.Background(), 60*time.Second)

// fail ends the program with the line of the caller's caller.
func fail(format string, values ...any) {
	_, file, line, _ := runtime.Caller(2)
	fmt.Fprintf(os.Stderr, "%s:%d: %s\n", file, line, fmt.Sprintf(format, values...))
	os.Exit(1)
}

func equal[T any](got, want T) {
	if !reflect.DeepEqual(got, want) {
		fail("got %#v, expected %#v", got, want)
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		fail("%v", err)
	}
	return value
}

func try(err error) {
	if err != nil {
		fail("%v", err)
	}
}

func basics(c *redis.Client) {
	equal(must(c.Set(ctx, "s", "1", time.Minute).Result()), "OK")
	equal(must(c.IncrBy(ctx, "s", 41).Result()), 42)
	if ttl := must(c.PTTL(ctx, "s").Result()); ttl <= 50*time.Second || ttl > time.Minute {
		fail("a time to live of %v", ttl)
	}
	_, err := c.Get(ctx, "none").Result()
	equal(err, error(redis.Nil))
	if err := c.LPush(ctx, "s", 1).Err(); err == nil || !strings.HasPrefix(err.Error(), "WRONGTYPE") {
		fail("a list command on a string: %v", err)
	}
	type user struct {
		Name string `redis:"name"`
		Age  int    `redis:"age"`
	}
	try(c.HSet(ctx, "user", user{"Ada", 36}).Err())
	var got user
	try(c.HGetAll(ctx, "user").Scan(&got))
	equal(got, user{"Ada", 36})
	try(c.ZAdd(ctx, "z", redis.Z{Score: 1.5, Member: "x"}, redis.Z{Score: 2, Member: "y"}).Err())
	equal(must(c.ZRangeArgsWithScores(ctx, redis.ZRangeArgs{Key: "z", Start: 1, Stop: 9, ByScore: true}).Result()),
		[]redis.Z{{Score: 1.5, Member: "x"}, {Score: 2, Member: "y"}})
	keys := 0
	for scan := c.Scan(ctx, 0, "*", 1).Iterator(); scan.Next(ctx); keys++ {
	}
	equal(keys, 3)
}

// A pipeline of a thousand requests, and transactions that are retried when their key changes.
func pipelines(c *redis.Client) {
	commands := must(c.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i := 0; i < 1000; i++ {
			pipe.Incr(ctx, "counter")
		}
		return nil
	}))
	for i, command := range commands {
		equal(command.(*redis.IntCmd).Val(), int64(i+1))
	}
	replies := must(c.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Set(ctx, "t", 1, 0)
		pipe.Incr(ctx, "t")
		pipe.Get(ctx, "t")
		return nil
	}))
	equal(replies[2].(*redis.StringCmd).Val(), "2")

	var group sync.WaitGroup
	for i := 0; i < 4; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for done := 0; done < 25; {
				err := c.Watch(ctx, func(tx *redis.Tx) error {
					n := must(tx.Get(ctx, "t").Int())
					_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
						return pipe.Set(ctx, "t", n+1, 0).Err()
					})
					return err
				}, "t")
				if err == nil {
					done++
				} else if !errors.Is(err, redis.TxFailedErr) {
					fail("%v", err)
				}
			}
		}()
	}
	group.Wait()
	equal(must(c.Get(ctx, "t").Int()), 102)
}

func scripts(c *redis.Client) {
	script := redis.NewScript(`
		local n = redis.call("INCRBY", KEYS[1], ARGV[1])
		return {n, tostring(n / 2), redis.call("TYPE", KEYS[1]).ok, false, {KEYS[1]}}`)
	// EVALSHA replies NOSCRIPT, and EVAL follows; from then on EVALSHA suffices.
	if err := script.EvalSha(ctx, c, []string{"scripted"}, 1).Err(); err == nil || !redis.HasErrorPrefix(err, "NOSCRIPT") {
		fail("a script that the server does not have: %v", err)
	}
	for n := int64(5); n <= 10; n += 5 {
		got := must(script.Run(ctx, c, []string{"scripted"}, 5).Slice())
		equal(got, []any{n, fmt.Sprint(float64(n) / 2), "string", nil, []any{"scripted"}})
	}
	equal(must(script.Exists(ctx, c).Result()), []bool{true})
	equal(must(script.EvalSha(ctx, c, []string{"scripted"}, 1).Slice())[0], any(int64(11)))
	read := redis.NewScript(`return redis.call("GET", KEYS[1])`)
	equal(must(read.RunRO(ctx, c, []string{"scripted"}).Text()), "11")
	err := redis.NewScript(`return redis.call("SET", KEYS[1], 1)`).RunRO(ctx, c, []string{"scripted"}).Err()
	if err == nil || !strings.Contains(err.Error(), "Write commands are not allowed from read-only scripts") {
		fail("a script that may only read: %v", err)
	}
	err = redis.NewScript(`return redis.error_reply("MY own")`).Run(ctx, c, nil).Err()
	equal(fmt.Sprint(err), "MY own")
	pipe := c.Pipeline()
	sums := []*redis.Cmd{script.EvalSha(ctx, pipe, []string{"scripted"}, 1), script.EvalSha(ctx, pipe, []string{"scripted"}, 1)}
	must(pipe.Exec(ctx))
	equal(must(sums[1].Slice())[0], any(int64(13)))

	try(c.FunctionLoadReplace(ctx, "#!lua name=lib\nredis.register_function('double', function(keys, args) return args[1] * 2 end)").Err())
	equal(must(c.FCall(ctx, "double", nil, 21).Int()), 42)
	equal(must(c.FunctionList(ctx, redis.FunctionListQuery{}).Result())[0].Functions[0].Name, "double")
	equal(must(c.FunctionDelete(ctx, "lib").Result()), "OK")
}

func channels(c *redis.Client) {
	news := c.Subscribe(ctx, "news")
	defer news.Close()
	must(news.Receive(ctx))
	all := c.PSubscribe(ctx, "n*")
	defer all.Close()
	must(all.Receive(ctx))
	for i := 0; i < 100; i++ {
		equal(must(c.Publish(ctx, "news", i).Result()), 2)
	}
	for i := 0; i < 100; i++ {
		equal((<-news.Channel()).Payload, fmt.Sprint(i))
		equal(*<-all.Channel(), redis.Message{Channel: "news", Pattern: "n*", Payload: fmt.Sprint(i)})
	}
	equal(must(c.PubSubNumSub(ctx, "news").Result()), map[string]int64{"news": 1})
	sharded := c.SSubscribe(ctx, "shard")
	defer sharded.Close()
	must(sharded.Receive(ctx))
	equal(must(c.SPublish(ctx, "shard", "x").Result()), 1)
	equal((<-sharded.Channel()).Payload, "x")
}

// Two consumers of a group take all entries; entries that one of them does not acknowledge go to the other.
func streams(c *redis.Client) {
	try(c.XGroupCreateMkStream(ctx, "x", "group", "$").Err())
	if err := c.XGroupCreate(ctx, "x", "group", "$").Err(); err == nil || !redis.HasErrorPrefix(err, "BUSYGROUP") {
		fail("a group that exists: %v", err)
	}
	taken := make(chan string, 100)
	var group sync.WaitGroup
	for _, name := range []string{"works", "leaves"} {
		group.Add(1)
		go func() {
			defer group.Done()
			for {
				read, err := c.XReadGroup(ctx, &redis.XReadGroupArgs{
					Group: "group", Consumer: name, Streams: []string{"x", ">"}, Count: 3, Block: 100 * time.Millisecond,
				}).Result()
				if err == redis.Nil {
					if len(taken) == 100 {
						return
					}
					continue
				}
				for _, entry := range must(read, err)[0].Messages {
					taken <- entry.Values["n"].(string)
					if name == "works" {
						equal(must(c.XAck(ctx, "x", "group", entry.ID).Result()), 1)
					}
				}
			}
		}()
	}
	for i := 0; i < 100; i++ {
		must(c.XAdd(ctx, &redis.XAddArgs{Stream: "x", Values: []string{"n", fmt.Sprint(i)}}).Result())
	}
	group.Wait()
	equal(len(taken), 100)
	pending := must(c.XPending(ctx, "x", "group").Result())
	claimed, start := 0, "0-0"
	for {
		entries, next, err := c.XAutoClaim(ctx, &redis.XAutoClaimArgs{Stream: "x", Group: "group", Consumer: "works", Start: start, Count: 10}).Result()
		try(err)
		for _, entry := range entries {
			claimed += int(must(c.XAck(ctx, "x", "group", entry.ID).Result()))
		}
		if start = next; next == "0-0" {
			break
		}
	}
	equal(int64(claimed), pending.Count)
	info := must(c.XInfoGroups(ctx, "x").Result())[0]
	equal([]int64{info.Pending, info.Lag, info.EntriesRead}, []int64{0, 0, 100})
	equal(must(c.XTrimMaxLen(ctx, "x", 10).Result()), 90)
}

func waiting(c *redis.Client) {
	time.AfterFunc(100*time.Millisecond, func() { c.RPush(ctx, "queue", "job") })
	equal(must(c.BLPop(ctx, 20*time.Second, "queue").Result()), []string{"queue", "job"})
	_, err := c.BLMove(ctx, "queue", "other", "LEFT", "RIGHT", time.Second).Result()
	equal(err, error(redis.Nil))
}

func main() {
	for protocol := 2; protocol <= 3; protocol++ {
		c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + os.Args[1], Protocol: protocol})
		try(c.FlushAll(ctx).Err())
		try(c.ScriptFlush(ctx).Err())
		for _, part := range []func(*redis.Client){basics, pipelines, scripts, channels, streams, waiting} {
			part(c)
		}
		try(c.Close())
	}
}
