package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// proc is one child process (and, through its process group, whatever it starts).
type proc struct {
	name string
	cmd  *exec.Cmd
	done chan error
	log  *os.File
}

func startProc(name, logDir string, env []string, argv ...string) (*proc, error) {
	f, err := os.Create(filepath.Join(logDir, name+".log"))
	if err != nil {
		return nil, err
	}
	c := exec.Command(argv[0], argv[1:]...)
	c.Stdout, c.Stderr = f, f
	c.Dir = logDir
	c.Env = append(os.Environ(), env...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := c.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p := &proc{name: name, cmd: c, done: make(chan error, 1), log: f}
	go func() { p.done <- c.Wait(); close(p.done) }()
	return p, nil
}

func (p *proc) pgid() int { return p.cmd.Process.Pid }

func (p *proc) alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// stop ends the process group this harness made: TERM, then KILL after a grace period.
func (p *proc) stop(grace time.Duration) {
	if p == nil {
		return
	}
	_ = syscall.Kill(-p.pgid(), syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(grace):
		_ = syscall.Kill(-p.pgid(), syscall.SIGKILL)
		<-p.done
	}
	_ = p.log.Close()
}

// findBinary looks in the KUBE_ASSETS directories (colon separated), then in PATH.
func findBinary(explicit, name string) (string, error) {
	if explicit != "" {
		return explicit, nil
	}
	for _, d := range strings.Split(os.Getenv("KUBE_ASSETS"), ":") {
		if d == "" {
			continue
		}
		p := filepath.Join(d, name)
		if st, err := os.Stat(p); err == nil && !st.IsDir() {
			return p, nil
		}
	}
	return exec.LookPath(name)
}

// freePort looks below the ephemeral range for n free loopback ports in a row.
func freePort(n int) int {
	for p := 20000 + os.Getpid()%9000; p < 32000; p += n {
		ok := true
		for i := 0; i < n && ok; i++ {
			l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", p+i))
			if ok = err == nil; ok {
				_ = l.Close()
			}
		}
		if ok {
			return p
		}
	}
	return 32000
}

type testEnv struct {
	dir        string
	url        string
	caPEM      []byte
	kubeconfig string // for the controller under test
	etcd, api  *proc
	client     *client
}

const (
	adminToken = "health-bench-admin"
	cutToken   = "health-bench-cut"
	flowSchema = "health-bench-cut"
)

func startEnv(dir, etcdBin, apiBin string, etcdPort, apiPort int) (*testEnv, error) {
	e := &testEnv{dir: dir, url: fmt.Sprintf("https://127.0.0.1:%d", apiPort)}
	for _, p := range []int{etcdPort, etcdPort + 1, apiPort} {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", p))
		if err != nil {
			return nil, fmt.Errorf("port %d is taken: %w", p, err)
		}
		_ = l.Close()
	}
	caPEM, crt, key, saKey, err := genCerts()
	if err != nil {
		return nil, err
	}
	e.caPEM = caPEM
	files := map[string][]byte{
		"ca.crt": caPEM, "tls.crt": crt, "tls.key": key, "sa.key": saKey,
		// The controller under test is its own user, so that its API calls can be counted.
		"tokens.csv": []byte(adminToken + ",bench-admin,bench-admin,system:masters\n" + cutToken + ",cut,cut,cut\n"),
	}
	for n, b := range files {
		if err := os.WriteFile(filepath.Join(dir, n), b, 0o600); err != nil {
			return nil, err
		}
	}
	e.kubeconfig = filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(e.kubeconfig, e.kubeconfigBytes(cutToken), 0o600); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "admin.kubeconfig"), e.kubeconfigBytes(adminToken), 0o600); err != nil {
		return nil, err
	}

	curl := fmt.Sprintf("http://127.0.0.1:%d", etcdPort)
	purl := fmt.Sprintf("http://127.0.0.1:%d", etcdPort+1)
	e.etcd, err = startProc("etcd", dir, nil, etcdBin, "--data-dir", filepath.Join(dir, "etcd"),
		"--listen-client-urls", curl, "--advertise-client-urls", curl,
		"--listen-peer-urls", purl, "--initial-advertise-peer-urls", purl,
		"--initial-cluster", "default="+purl, "--unsafe-no-fsync", "--quota-backend-bytes", "8589934592")
	if err != nil {
		return nil, err
	}
	j := func(n string) string { return filepath.Join(dir, n) }
	e.api, err = startProc("kube-apiserver", dir, nil, apiBin,
		"--etcd-servers="+curl, "--cert-dir="+j("certs"),
		"--tls-cert-file="+j("tls.crt"), "--tls-private-key-file="+j("tls.key"),
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", apiPort),
		"--service-account-issuer=https://health-bench.local", "--service-account-signing-key-file="+j("sa.key"),
		"--service-account-key-file="+j("sa.key"), "--authorization-mode=RBAC", "--token-auth-file="+j("tokens.csv"),
		"--service-cluster-ip-range=10.0.0.0/24", "--allow-privileged=true", "--disable-admission-plugins=ServiceAccount")
	if err != nil {
		e.stop()
		return nil, err
	}
	e.client = newClient(e.url, caPEM, adminToken)
	deadline := time.Now().Add(2 * time.Minute)
	for {
		if code, _, err := e.client.do("GET", "/readyz", "", nil); err == nil && code == 200 {
			return e, nil
		}
		if !e.api.alive() || !e.etcd.alive() || time.Now().After(deadline) {
			e.stop()
			return nil, fmt.Errorf("API server did not become ready; see logs in %s", dir)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

func (e *testEnv) stop() {
	e.api.stop(20 * time.Second)
	e.etcd.stop(10 * time.Second)
}

func (e *testEnv) kubeconfigBytes(token string) []byte {
	return []byte(fmt.Sprintf(`apiVersion: v1
kind: Config
clusters:
- name: bench
  cluster:
    server: %s
    certificate-authority-data: %s
users:
- name: bench
  user:
    token: %s
contexts:
- name: bench
  context: {cluster: bench, user: bench, namespace: %s}
current-context: bench
`, e.url, base64.StdEncoding.EncodeToString(e.caPEM), token, namespace))
}

func genCerts() (ca, crt, key, sa []byte, err error) {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return
	}
	now := time.Now()
	caT := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "health-bench-ca"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(48 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature}
	caDER, err := x509.CreateCertificate(rand.Reader, caT, caT, &caKey.PublicKey, caKey)
	if err != nil {
		return
	}
	caCert, err := x509.ParseCertificate(caDER)
	if err != nil {
		return
	}
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return
	}
	t := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "kube-apiserver"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(48 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames: []string{"localhost", "kubernetes.default.svc"}, IPAddresses: []net.IP{net.ParseIP("127.0.0.1"), net.ParseIP("10.0.0.1")}}
	der, err := x509.CreateCertificate(rand.Reader, t, caCert, &k.PublicKey, caKey)
	if err != nil {
		return
	}
	saKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return
	}
	pemOf := func(typ string, b []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: typ, Bytes: b}) }
	kb, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		return
	}
	sb, err := x509.MarshalECPrivateKey(saKey)
	if err != nil {
		return
	}
	return pemOf("CERTIFICATE", caDER), pemOf("CERTIFICATE", der), pemOf("EC PRIVATE KEY", kb), pemOf("EC PRIVATE KEY", sb), nil
}
