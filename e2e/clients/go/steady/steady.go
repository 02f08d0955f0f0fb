// Package steady is what the clients' steady mode has in common: records at a steady rate, numbered per partition, and
// what became of them as lines on standard output. programs.ts describes the mode.
package steady

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

var output sync.Mutex

// Plan says what to send. Group is the consumer group that reads it.
type Plan struct {
	Topic, Group                 string
	Partitions, RecordsPerSecond int
	// IsTuned asks for the settings of OPERATIONS.md, "Where partitions are led", instead of the client's defaults.
	IsTuned bool
}

// Requested tells whether the program was started in the steady mode.
func Requested() bool {
	return len(os.Args) == 2 && os.Args[1] == "steady"
}

// ReadPlan reads the environment.
func ReadPlan() (Plan, error) {
	topic := os.Getenv("CLIENT_TOPIC")
	partitions, err := strconv.Atoi(os.Getenv("CLIENT_PARTITIONS"))
	if err != nil {
		return Plan{}, err
	}
	rate, err := strconv.Atoi(os.Getenv("CLIENT_RECORDS_PER_SECOND"))
	return Plan{topic, topic + "-readers", partitions, rate, os.Getenv("CLIENT_TUNED") == "1"}, err
}

// Run calls send for the next record of each partition, so many times per second, until standard input ends.
func (p Plan) Run(send func(partition, sequence int)) {
	var ended atomic.Bool
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		ended.Store(true)
	}()
	started, every := time.Now(), time.Second/time.Duration(p.RecordsPerSecond)
	for sequence := 0; !ended.Load(); sequence++ {
		for partition := range p.Partitions {
			send(partition, sequence)
		}
		time.Sleep(time.Until(started.Add(time.Duration(sequence+1) * every)))
	}
}

// Delivered reports a record's acknowledgement, or the error that the application gets instead.
func Delivered(partition, sequence int, err error) {
	if err != nil {
		printLine("failed %d %d %s", partition, sequence, oneLine(err))
		return
	}
	printLine("acked %d %d %d", partition, sequence, time.Now().UnixMilli())
}

// Read reports a record that the consumer was given.
func Read(partition int, value []byte) {
	printLine("read %d %s", partition, value)
}

// Complain reports an error of the consumer.
func Complain(err error) {
	printLine("error %s", oneLine(err))
}

// Flushed reports that each record has been acknowledged or has failed.
func Flushed() {
	printLine("flushed")
}

// Value is a record's content.
func Value(sequence int) []byte {
	return []byte(strconv.Itoa(sequence))
}

func printLine(format string, arguments ...any) {
	output.Lock()
	defer output.Unlock()
	fmt.Printf(format+"\n", arguments...)
}

func oneLine(err error) string {
	return strings.ReplaceAll(err.Error(), "\n", " ")
}
