// health-bench measures how a MachineHealthCheck controller performs against a real Kubernetes API server.
// hack/benches/health.py runs it and explains its figures.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

type config struct {
	Label           string        `json:"label"`
	Cut             string        `json:"controller_under_test"`
	N               int           `json:"n_machines"`
	K               int           `json:"k_storm"`
	M               int           `json:"m_mhcs"`
	Mode            string        `json:"mode"`
	TemplateVersion string        `json:"template_version"`
	Timeout         time.Duration `json:"timeout_unknown_ns"`
	DeadlineTimeout time.Duration `json:"timeout_false_ns"`
	DeadlineCount   int           `json:"deadline_count"`
	DeadlineJitter  time.Duration `json:"deadline_jitter_ns"`
	Rate            float64       `json:"heartbeat_rate_per_s"`
	HeartbeatFor    time.Duration `json:"heartbeat_for_ns"`
	Tail            time.Duration `json:"tail_ns"`
	Background      float64       `json:"background_heartbeats_per_s"`
	StormSpread     time.Duration `json:"storm_spread_ns"`
	StormCap        time.Duration `json:"storm_cap_ns"`
	Stall           time.Duration `json:"stall_ns"`
	Idle            time.Duration `json:"idle_ns"`
	StartupCap      time.Duration `json:"startup_cap_ns"`
	Parallel        int           `json:"parallel_writes"`
	Scenarios       string        `json:"scenarios"`
	Seed            int64         `json:"seed"`
	CRDDir          string        `json:"-"`
	Etcd, APIServer string        `json:"-"`
	EtcdPort        int           `json:"-"`
	APIPort         int           `json:"-"`
	WorkDir, Out    string        `json:"-"`
	Keep            bool          `json:"-"`
}

type report struct {
	Config     *config          `json:"config"`
	When       string           `json:"when"`
	Cores      int              `json:"cores"`
	LoadAvg    string           `json:"loadavg_at_start"`
	Load       *loadResult      `json:"load,omitempty"`
	Startup    *startupResult   `json:"startup,omitempty"`
	Idle       *usage           `json:"idle,omitempty"`
	Storm      *stormResult     `json:"storm,omitempty"`
	Recover    *stormResult     `json:"recover,omitempty"`
	Deadline   *deadlineResult  `json:"deadline,omitempty"`
	Heartbeats *heartbeatResult `json:"heartbeats,omitempty"`
	LeftOpen   int              `json:"remediations_left_open"`
	Error      string           `json:"error,omitempty"`
}

// The children die with this process (Pdeathsig), which the kernel ties to the thread that started them.
func init() { runtime.LockOSThread() }

func main() {
	cfg := &config{}
	flag.StringVar(&cfg.Cut, "cut", os.Getenv("CUT"), "command line of the controller under test, run by sh with KUBECONFIG set (env CUT)")
	flag.StringVar(&cfg.Label, "label", "", "name of this run in the report")
	flag.IntVar(&cfg.N, "n", 1000, "Nodes and Machines")
	flag.IntVar(&cfg.K, "k", 100, "nodes that fail at once in the storm")
	flag.IntVar(&cfg.M, "m", 1, "MachineHealthChecks that share the Machines")
	flag.StringVar(&cfg.Mode, "mode", "template", "template: remediation requests; owner: no templateRef, Machine conditions only")
	flag.StringVar(&cfg.TemplateVersion, "template-version", "v1beta1", "API version of the remediation template and request")
	flag.DurationVar(&cfg.Timeout, "timeout", 60*time.Second, "timeout of Ready=Unknown")
	flag.DurationVar(&cfg.DeadlineTimeout, "deadline-timeout", 20*time.Second, "timeout of Ready=False")
	flag.IntVar(&cfg.DeadlineCount, "deadline-count", 5, "repetitions of the deadline scenario")
	flag.DurationVar(&cfg.DeadlineJitter, "deadline-jitter", 5*time.Second, "random wait before each repetition")
	flag.Float64Var(&cfg.Rate, "rate", 100, "node status updates per second in the heartbeats scenario")
	flag.DurationVar(&cfg.HeartbeatFor, "heartbeat-for", time.Minute, "length of each of its two phases")
	flag.DurationVar(&cfg.Tail, "tail", 5*time.Second, "time measured after the last update of a phase")
	flag.Float64Var(&cfg.Background, "background", -1, "heartbeats per second during the other scenarios; -1: N/300, what kubelets send; 0: none")
	flag.DurationVar(&cfg.StormSpread, "storm-spread", 0, "spread the storm's writes evenly over this time; 0: as fast as possible")
	flag.DurationVar(&cfg.StormCap, "storm-cap", 5*time.Minute, "longest wait in storm and recover")
	flag.DurationVar(&cfg.Stall, "stall", 0, "end storm and recover early when nothing has moved for this long; 0: never")
	flag.DurationVar(&cfg.Idle, "idle", 20*time.Second, "length of the idle measurement")
	flag.DurationVar(&cfg.StartupCap, "startup-cap", 5*time.Minute, "longest wait for the steady state")
	flag.IntVar(&cfg.Parallel, "parallel", 32, "concurrent writes of the harness")
	flag.StringVar(&cfg.Scenarios, "scenarios", "idle,storm,recover,deadline,heartbeats", "what to run, in this order")
	flag.Int64Var(&cfg.Seed, "seed", 1, "random seed")
	flag.StringVar(&cfg.CRDDir, "crds", os.Getenv("CAPI_CRDS"), "directory with Cluster API's CRD files (env CAPI_CRDS)")
	flag.StringVar(&cfg.Etcd, "etcd", "", "etcd binary; default: KUBE_ASSETS directories, then PATH")
	flag.StringVar(&cfg.APIServer, "kube-apiserver", "", "kube-apiserver binary; default: KUBE_ASSETS directories, then PATH")
	flag.IntVar(&cfg.EtcdPort, "etcd-port", 0, "etcd client port (the next one is its peer port); 0: a free pair")
	flag.IntVar(&cfg.APIPort, "api-port", 0, "API server port; 0: a free one")
	flag.StringVar(&cfg.WorkDir, "work-dir", "", "where data and logs go; default: a new temporary directory")
	flag.StringVar(&cfg.Out, "out", "", "JSON report file; default: stdout")
	flag.BoolVar(&cfg.Keep, "keep", false, "keep the work directory")
	flag.Parse()
	if cfg.Cut == "" || cfg.CRDDir == "" || cfg.K > cfg.N || cfg.M < 1 || (cfg.Mode != "template" && cfg.Mode != "owner") {
		fmt.Fprintln(os.Stderr, "need -cut and -crds, K <= N, M >= 1, mode template or owner; see -help")
		os.Exit(2)
	}
	if cfg.Background < 0 {
		cfg.Background = float64(cfg.N) / 300
	}
	if cfg.Label == "" {
		cfg.Label = fmt.Sprintf("n%d-k%d-m%d-%s", cfg.N, cfg.K, cfg.M, cfg.Mode)
	}
	r := &report{Config: cfg, When: time.Now().UTC().Format(time.RFC3339), Cores: runtime.NumCPU()}
	if la, err := os.ReadFile("/proc/loadavg"); err == nil {
		r.LoadAvg = strings.TrimSpace(string(la))
	}
	err := run(cfg, r)
	if err != nil {
		r.Error = err.Error()
	}
	j, _ := json.MarshalIndent(r, "", "  ")
	if cfg.Out == "" {
		fmt.Println(string(j))
	} else if werr := os.WriteFile(cfg.Out, append(j, '\n'), 0o644); werr != nil {
		fmt.Fprintln(os.Stderr, werr)
	}
	fmt.Print(table(r))
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func say(format string, a ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", a...)
}

func run(cfg *config, r *report) (err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	dir := cfg.WorkDir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "health-bench-"); err != nil {
			return err
		}
	} else if err = os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	if _, serr := os.Stat(filepath.Join(dir, "etcd")); serr == nil {
		return fmt.Errorf("%s already holds an etcd data directory", dir)
	}
	etcdBin, err := findBinary(cfg.Etcd, "etcd")
	if err != nil {
		return err
	}
	apiBin, err := findBinary(cfg.APIServer, "kube-apiserver")
	if err != nil {
		return err
	}
	free := freePort(3)
	if cfg.EtcdPort == 0 {
		cfg.EtcdPort = free
	}
	if cfg.APIPort == 0 {
		cfg.APIPort = free + 2
	}
	env, err := startEnv(dir, etcdBin, apiBin, cfg.EtcdPort, cfg.APIPort)
	if err != nil {
		return err
	}
	b := &bench{cfg: cfg, c: env.client, env: env, rnd: rand.New(rand.NewSource(cfg.Seed)), bad: map[int]bool{}}
	cleanup := func() {
		b.cut.stop(20 * time.Second)
		cancel()
		env.stop()
		if !cfg.Keep {
			_ = os.RemoveAll(filepath.Join(dir, "etcd"))
			if cfg.WorkDir == "" && err == nil {
				_ = os.RemoveAll(dir)
			}
		}
	}
	defer cleanup()
	sig := make(chan os.Signal, 1)
	signal.Notify(sig, syscall.SIGINT, syscall.SIGTERM)
	go func() { <-sig; cleanup(); os.Exit(130) }()

	say("API server up; installing CRDs (work directory %s)", dir)
	if err = prepareRights(b.c); err != nil {
		return err
	}
	if err = installCRDs(b.c, cfg.CRDDir, []string{"clusters", "machines", "machinehealthchecks"}); err != nil {
		return err
	}
	say("loading %d Nodes and Machines, %d MachineHealthChecks", cfg.N, cfg.M)
	if r.Load, err = loadData(b.c, env, cfg); err != nil {
		return err
	}
	say("loaded in %.1f s", r.Load.Seconds)
	if b.obs, err = newObserver(ctx, b.c, cfg); err != nil {
		return err
	}
	stop := make(chan struct{})
	defer close(stop)
	go b.background(stop, cfg.Background)

	t0 := time.Now()
	if b.cut, err = startProc("cut", dir, []string{"KUBECONFIG=" + env.kubeconfig}, "sh", "-c", "exec "+cfg.Cut); err != nil {
		return err
	}
	m := b.meter()
	r.Startup = &startupResult{}
	if r.Startup.SteadyS, err = b.waitSteady(t0, cfg.StartupCap); err != nil {
		return err
	}
	r.Startup.Usage = m.end()
	// The meter began a moment after the process; count its CPU from zero.
	r.Startup.Usage.CPUS, _ = groupUsage(b.cut.pgid())
	say("steady after %.1f s", r.Startup.SteadyS)

	perm := b.rnd.Perm(cfg.N)
	victims, rest := perm[:cfg.K], perm[cfg.K:]
	if len(rest) == 0 {
		rest = victims
	}
	for _, s := range strings.Split(cfg.Scenarios, ",") {
		say("scenario %s", s)
		switch s {
		case "idle":
			m := b.meter()
			time.Sleep(cfg.Idle)
			u := m.end()
			r.Idle = &u
			err = b.check()
		case "storm":
			r.Storm, err = b.storm(victims)
		case "recover":
			r.Recover, err = b.recover(victims)
		case "deadline":
			r.Deadline, err = b.deadline(rest)
		case "heartbeats":
			r.Heartbeats, err = b.heartbeats()
		default:
			err = fmt.Errorf("unknown scenario")
		}
		if err != nil {
			return fmt.Errorf("scenario %s: %w", s, err)
		}
	}
	r.LeftOpen = b.obs.openCount()
	return nil
}

func table(r *report) string {
	var s strings.Builder
	p := func(k, f string, a ...any) { fmt.Fprintf(&s, "  %-34s "+f+"\n", append([]any{k}, a...)...) }
	fmt.Fprintf(&s, "%s  (N=%d K=%d M=%d %s, background %.1f/s)\n", r.Config.Label, r.Config.N, r.Config.K, r.Config.M, r.Config.Mode, r.Config.Background)
	if x := r.Startup; x != nil {
		p("startup to steady", "%.1f s, %.1f CPU s, RSS %.0f MiB, %.0f API calls", x.SteadyS, x.Usage.CPUS, x.Usage.RSSEndMiB, x.Usage.APICalls)
	}
	if x := r.Idle; x != nil {
		p("idle", "%.1f %% of a core, RSS %.0f MiB, %.0f API calls in %.0f s", x.CPUPercent, x.RSSEndMiB, x.APICalls, x.WallS)
	}
	st := func(name string, x *stormResult) {
		if x == nil {
			return
		}
		p(name+" reached", "%d of %d (%s), writes took %.2f s", x.Reached, x.K, x.StoppedBecause, x.PatchPhaseS)
		p(name+" latency p50/p99/max", "%.2f / %.2f / %.2f s, %.1f per s", x.Latency.P50, x.Latency.P99, x.Latency.Max, x.ThroughputPerS)
		p(name+" cost", "%.1f CPU s in %.0f s, RSS max %.0f MiB, %.0f API calls", x.Usage.CPUS, x.Usage.WallS, x.Usage.RSSMaxMiB, x.Usage.APICalls)
	}
	st("storm", r.Storm)
	st("recover", r.Recover)
	if x := r.Deadline; x != nil {
		p("deadline lateness", "%v s, missed %d; clear %v s", x.LateS, x.Missed, x.ClearS)
	}
	if x := r.Heartbeats; x != nil {
		for _, h := range []struct {
			n string
			p heartbeatPhase
		}{{"heartbeat only", x.BeatOnly}, {"condition change", x.Flap}} {
			p(h.n+" per 1000 updates", "%.2f CPU s, %.0f API calls; RSS max %.0f MiB; %.0f/s; false %d",
				h.p.CPUPer1000, h.p.CallsPer1000, h.p.Usage.RSSMaxMiB, h.p.AchievedRate, h.p.FalseRequests)
		}
	}
	if r.LeftOpen > 0 {
		p("remediations left open", "%d", r.LeftOpen)
	}
	if r.Error != "" {
		p("ERROR", "%s", r.Error)
	}
	return s.String()
}
