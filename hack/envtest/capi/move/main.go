// `clusterctl move`, by clusterctl's own library, without its configuration and its downloads of providers.
//
// Usage: move FROM TO NAMESPACE
//
// Moves the objects of a namespace from the management cluster of the kubeconfig FROM to that of TO. As `clusterctl`
// itself does before any command, it creates the kind by which clusterctl knows the providers of a cluster.
package main

import (
	"context"
	"fmt"
	"os"

	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/cluster"
	logf "sigs.k8s.io/cluster-api/cmd/clusterctl/log"
	ctrl "sigs.k8s.io/controller-runtime"
)

// As `clusterctl -v 5`, which names each object that it creates and deletes.
const verbosity = 5

func management(ctx context.Context, kubeconfig string) (cluster.Client, error) {
	client := cluster.New(cluster.Kubeconfig{Path: kubeconfig}, nil)
	if err := client.ProviderInventory().EnsureCustomResourceDefinitions(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w", kubeconfig, err)
	}
	return client, nil
}

func move(ctx context.Context, from, to, namespace string) error {
	source, err := management(ctx, from)
	if err != nil {
		return err
	}
	target, err := management(ctx, to)
	if err != nil {
		return err
	}
	return source.ObjectMover().Move(ctx, namespace, target, false)
}

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: move FROM TO NAMESPACE")
		os.Exit(2)
	}
	threshold := verbosity
	logger := logf.NewLogger(logf.WithThreshold(&threshold))
	logf.SetLogger(logger)
	ctrl.SetLogger(logger)
	if err := move(context.Background(), os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
