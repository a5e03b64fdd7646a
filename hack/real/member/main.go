// The only program in the containers of a real host: the workload and the sandbox of each pod.
//
// With REPORT_TO (HOST:PORT) it writes one line after another to that address: the name of the pod, of
// the node, and the boot ID of the kernel. Without it, it waits for its end, as pause does.
package main

import (
	"fmt"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// The time between two lines.
const interval = 200 * time.Millisecond

func main() {
	ends := make(chan os.Signal, 1)
	signal.Notify(ends, syscall.SIGINT, syscall.SIGTERM)
	if address := os.Getenv("REPORT_TO"); address != "" {
		go report(address)
	}
	<-ends
}

func report(address string) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	line := fmt.Sprintf("%s %s %s\n", os.Getenv("POD"), os.Getenv("NODE"), strings.TrimSpace(string(boot)))
	for {
		if connection, err := net.DialTimeout("tcp", address, time.Second); err == nil {
			for err == nil {
				_, err = connection.Write([]byte(line))
				time.Sleep(interval)
			}
			connection.Close()
		}
		time.Sleep(interval)
	}
}
