// The part of a kubelet that serves `kubectl port-forward`, by the library of the kubelet itself.
//
// Usage: kubelet-port-forward LISTEN TARGET
//
// Serves HTTPS at LISTEN with a self-signed certificate, and connects each forwarded port of each Pod to TARGET.
package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/portforward"
)

type target string

func (address target) PortForward(_ context.Context, _, _ string, _ int32, stream io.ReadWriteCloser) error {
	defer stream.Close()
	connection, err := net.Dial("tcp", string(address))
	if err != nil {
		return err
	}
	defer connection.Close()
	ended := make(chan error, 2)
	go func() {
		_, err := io.Copy(connection, stream)
		ended <- err
	}()
	go func() {
		_, err := io.Copy(stream, connection)
		ended <- err
	}()
	return <-ended
}

func certificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotAfter:     time.Now().Add(24 * time.Hour),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

func serve(listen, address string) error {
	shown, err := certificate()
	if err != nil {
		return err
	}
	protocols := []string{portforward.ProtocolV1Name}
	mux := http.NewServeMux()
	mux.HandleFunc("/portForward/{namespace}/{pod}", func(w http.ResponseWriter, request *http.Request) {
		options, err := portforward.NewV4Options(request)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		portforward.ServePortForward(w, request, target(address), request.PathValue("pod"), "", options,
			time.Hour, 30*time.Second, protocols)
	})
	server := &http.Server{
		Addr:    listen,
		Handler: mux,
		// Streams of SPDY need HTTP/1.1.
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{shown}, NextProtos: []string{"http/1.1"}},
	}
	return server.ListenAndServeTLS("", "")
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: kubelet-port-forward LISTEN TARGET")
		os.Exit(2)
	}
	if err := serve(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
