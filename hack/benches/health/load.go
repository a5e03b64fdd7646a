package main

import (
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

//go:embed crds/*.yaml
var ownCRDs embed.FS

const (
	namespace   = "bench"
	clusterName = "bench"
	capiGroup   = "/apis/cluster.x-k8s.io/v1beta2/namespaces/" + namespace
	shardLabel  = "health-bench.local/shard"
	clusterLbl  = "cluster.x-k8s.io/cluster-name"
	infraGroup  = "infrastructure.cluster.x-k8s.io"
)

type obj = map[string]any

func nodeName(i int) string    { return fmt.Sprintf("node-%05d", i) }
func machineName(i int) string { return fmt.Sprintf("machine-%05d", i) }
func ts(t time.Time) string    { return t.UTC().Format(time.RFC3339) }

// installCRDs takes the CAPI CRDs from dir (only the named ones) and the embedded stand-ins for CAPM3.
func installCRDs(c *client, dir string, names []string) error {
	var docs [][]byte
	for _, n := range names {
		b, err := os.ReadFile(filepath.Join(dir, "cluster.x-k8s.io_"+n+".yaml"))
		if err != nil {
			return err
		}
		docs = append(docs, b)
	}
	ents, err := fs.Glob(ownCRDs, "crds/*.yaml")
	if err != nil {
		return err
	}
	for _, e := range ents {
		b, err := ownCRDs.ReadFile(e)
		if err != nil {
			return err
		}
		docs = append(docs, b)
	}
	const path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	for _, d := range docs {
		j, err := yaml.YAMLToJSON(d)
		if err != nil {
			return err
		}
		var o object
		if err := json.Unmarshal(j, &o); err != nil {
			return err
		}
		if _, err := c.must2xx("POST", path, "application/json", j); err != nil {
			return err
		}
		ok := false
		for end := time.Now().Add(30 * time.Second); time.Now().Before(end) && !ok; time.Sleep(100 * time.Millisecond) {
			b, err := c.must2xx("GET", path+"/"+o.Metadata.Name, "", nil)
			if err != nil {
				return err
			}
			var got object
			if err := json.Unmarshal(b, &got); err != nil {
				return err
			}
			for _, cd := range got.Status.Conditions {
				ok = ok || cd.Type == "Established" && cd.Status == "True"
			}
		}
		if !ok {
			return fmt.Errorf("CRD %s not established", o.Metadata.Name)
		}
	}
	// Established is not yet served: wait for the resources themselves.
	for _, p := range []string{capiGroup + "/machines", capiGroup + "/machinehealthchecks", capiGroup + "/clusters",
		infraPath("v1beta1") + "/metal3remediations", infraPath("v1beta2") + "/metal3remediationtemplates"} {
		end := time.Now().Add(30 * time.Second)
		for {
			code, _, err := c.do("GET", p+"?limit=1", "", nil)
			if err == nil && code == 200 {
				break
			}
			if time.Now().After(end) {
				return fmt.Errorf("%s not served: %d %v", p, code, err)
			}
			time.Sleep(200 * time.Millisecond)
		}
	}
	return nil
}

func infraPath(version string) string {
	return "/apis/" + infraGroup + "/" + version + "/namespaces/" + namespace
}

// prepareRights lets the controller under test do everything, outside APF queueing, under its own FlowSchema.
func prepareRights(c *client) error {
	if _, err := c.create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", obj{
		"metadata": obj{"name": "health-bench-cut"},
		"roleRef":  obj{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
		"subjects": []obj{{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "cut"}},
	}); err != nil {
		return err
	}
	_, err := c.create("/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas", obj{
		"metadata": obj{"name": flowSchema},
		"spec": obj{
			"matchingPrecedence":         2,
			"priorityLevelConfiguration": obj{"name": "exempt"},
			"rules": []obj{{
				"subjects":         []obj{{"kind": "User", "user": obj{"name": "cut"}}},
				"resourceRules":    []obj{{"verbs": []string{"*"}, "apiGroups": []string{"*"}, "resources": []string{"*"}, "clusterScope": true, "namespaces": []string{"*"}}},
				"nonResourceRules": []obj{{"verbs": []string{"*"}, "nonResourceURLs": []string{"*"}}},
			}},
		},
	})
	return err
}

func cond(typ, status, reason string, at time.Time) obj {
	return obj{"type": typ, "status": status, "reason": reason, "message": "", "lastTransitionTime": ts(at)}
}

type loadResult struct {
	Seconds    float64 `json:"seconds"`
	NodeBytes  int     `json:"node_object_bytes"`
	MachBytes  int     `json:"machine_object_bytes"`
	ObjsPerSec float64 `json:"objects_per_second"`
}

func loadData(c *client, e *testEnv, cfg *config) (*loadResult, error) {
	start := time.Now()
	long := start.Add(-24 * time.Hour)
	if _, err := c.create("/api/v1/namespaces", obj{"metadata": obj{"name": namespace}}); err != nil {
		return nil, err
	}
	if _, err := c.create("/api/v1/namespaces/"+namespace+"/secrets", obj{
		"metadata": obj{"name": clusterName + "-kubeconfig", "labels": obj{clusterLbl: clusterName}},
		"type":     "cluster.x-k8s.io/secret",
		"data":     obj{"value": base64.StdEncoding.EncodeToString(e.kubeconfigBytes(cutToken))},
	}); err != nil {
		return nil, err
	}
	if _, err := c.create(capiGroup+"/clusters", obj{
		"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
		"metadata": obj{"name": clusterName},
		"spec": obj{
			"controlPlaneEndpoint": obj{"host": "127.0.0.1", "port": cfg.APIPort},
			"infrastructureRef":    obj{"apiGroup": infraGroup, "kind": "Metal3Cluster", "name": clusterName},
		},
	}); err != nil {
		return nil, err
	}
	if err := c.patch(capiGroup+"/clusters/"+clusterName+"/status", mergePatch, obj{"status": obj{
		"initialization": obj{"infrastructureProvisioned": true, "controlPlaneInitialized": true},
		"phase":          "Provisioned",
		"conditions": []obj{
			cond("InfrastructureReady", "True", "Ready", long),
			cond("ControlPlaneInitialized", "True", "Initialized", long),
			cond("Available", "True", "Available", long),
		},
	}}); err != nil {
		return nil, err
	}
	if _, err := c.create(infraPath("v1beta1")+"/metal3remediationtemplates", obj{
		"apiVersion": infraGroup + "/v1beta1", "kind": "Metal3RemediationTemplate",
		"metadata": obj{"name": "reboot"},
		"spec":     obj{"template": obj{"spec": obj{"strategy": obj{"type": "Reboot", "retryLimit": 1, "timeout": "5m0s"}}}},
	}); err != nil {
		return nil, err
	}
	r := &loadResult{}
	err := parallel(cfg.N, cfg.Parallel, func(i int) error {
		_, err := c.create("/api/v1/nodes", obj{
			"metadata": obj{"name": nodeName(i), "labels": obj{
				"kubernetes.io/hostname": nodeName(i), "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
				"topology.kubernetes.io/zone": fmt.Sprintf("rack-%d", i/40), "node-role.kubernetes.io/worker": "",
			}, "annotations": obj{
				"cluster.x-k8s.io/cluster-name": clusterName, "cluster.x-k8s.io/machine": machineName(i),
				"cluster.x-k8s.io/cluster-namespace": namespace,
			}},
			"spec": obj{"providerID": fmt.Sprintf("metal3://%s/host-%05d/%s", namespace, i, machineName(i))},
			"status": obj{
				"capacity":    obj{"cpu": "64", "memory": "263856880Ki", "pods": "110", "ephemeral-storage": "459820704Ki"},
				"allocatable": obj{"cpu": "63", "memory": "263754480Ki", "pods": "110", "ephemeral-storage": "423770759Ki"},
				"addresses":   []obj{{"type": "InternalIP", "address": fmt.Sprintf("10.%d.%d.%d", i>>16&255, i>>8&255, i&255)}, {"type": "Hostname", "address": nodeName(i)}},
				"nodeInfo": obj{"architecture": "amd64", "bootID": "3f0d7f6e-3c1e-4c0e-9f1b-6f0f7b8f9a10", "containerRuntimeVersion": "containerd://2.1.0",
					"kernelVersion": "6.12.0", "kubeProxyVersion": "", "kubeletVersion": "v1.36.3", "machineID": fmt.Sprintf("%032x", i),
					"operatingSystem": "linux", "osImage": "Linux", "systemUUID": fmt.Sprintf("%032x", i)},
				"conditions": []obj{
					nodeCond("MemoryPressure", "False", "KubeletHasSufficientMemory", long, start),
					nodeCond("DiskPressure", "False", "KubeletHasNoDiskPressure", long, start),
					nodeCond("PIDPressure", "False", "KubeletHasSufficientPID", long, start),
					nodeCond("Ready", "True", "KubeletReady", long, start),
				},
			},
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	err = parallel(cfg.N, cfg.Parallel, func(i int) error {
		if _, err := c.create(capiGroup+"/machines", obj{
			"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
			"metadata": obj{"name": machineName(i), "labels": obj{
				clusterLbl: clusterName, "cluster.x-k8s.io/deployment-name": "workers", shardLabel: fmt.Sprint(i % cfg.M),
			}},
			"spec": obj{
				"clusterName": clusterName, "version": "v1.36.3",
				"bootstrap":         obj{"dataSecretName": "none"},
				"infrastructureRef": obj{"apiGroup": infraGroup, "kind": "Metal3Machine", "name": machineName(i)},
				"providerID":        fmt.Sprintf("metal3://%s/host-%05d/%s", namespace, i, machineName(i)),
			},
		}); err != nil {
			return err
		}
		return c.patch(capiGroup+"/machines/"+machineName(i)+"/status", mergePatch, obj{"status": obj{
			"nodeRef":        obj{"name": nodeName(i)},
			"phase":          "Running",
			"initialization": obj{"infrastructureProvisioned": true, "bootstrapDataSecretCreated": true},
			"conditions": []obj{
				cond("Available", "True", "Available", long), cond("Ready", "True", "Ready", long),
				cond("BootstrapConfigReady", "True", "Ready", long), cond("InfrastructureReady", "True", "Ready", long),
				cond("NodeReady", "True", "NodeReady", long), cond("NodeHealthy", "True", "NodeHealthy", long),
			},
		}})
	})
	if err != nil {
		return nil, err
	}
	for i := 0; i < cfg.M; i++ {
		remediation := obj{"triggerIf": obj{"unhealthyLessThanOrEqualTo": "100%"}}
		if cfg.Mode == "template" {
			remediation["templateRef"] = obj{"apiVersion": infraGroup + "/" + cfg.TemplateVersion, "kind": "Metal3RemediationTemplate", "name": "reboot"}
		}
		// Ready=Unknown carries the long timeout (storm), Ready=False the short one (deadline scenario).
		if _, err := c.create(capiGroup+"/machinehealthchecks", obj{
			"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineHealthCheck",
			"metadata": obj{"name": fmt.Sprintf("mhc-%d", i), "labels": obj{clusterLbl: clusterName}},
			"spec": obj{
				"clusterName": clusterName,
				"selector":    obj{"matchLabels": obj{shardLabel: fmt.Sprint(i)}},
				"checks": obj{
					"nodeStartupTimeoutSeconds": 600,
					"unhealthyNodeConditions": []obj{
						{"type": "Ready", "status": "Unknown", "timeoutSeconds": int(cfg.Timeout.Seconds())},
						{"type": "Ready", "status": "False", "timeoutSeconds": int(cfg.DeadlineTimeout.Seconds())},
					},
				},
				"remediation": remediation,
			},
		}); err != nil {
			return nil, err
		}
	}
	if b, err := c.must2xx("GET", "/api/v1/nodes/"+nodeName(0), "", nil); err == nil {
		r.NodeBytes = len(b)
	}
	if b, err := c.must2xx("GET", capiGroup+"/machines/"+machineName(0), "", nil); err == nil {
		r.MachBytes = len(b)
	}
	r.Seconds = time.Since(start).Seconds()
	r.ObjsPerSec = float64(2*cfg.N) / r.Seconds
	return r, nil
}

func nodeCond(typ, status, reason string, trans, beat time.Time) obj {
	return obj{"type": typ, "status": status, "reason": reason, "message": strings.ToLower(reason), "lastTransitionTime": ts(trans), "lastHeartbeatTime": ts(beat)}
}

// setReady writes the Ready condition of a Node, as the node lifecycle controller or a kubelet would.
func setReady(c *client, node, status string, trans time.Time) error {
	reason := map[string]string{"True": "KubeletReady", "False": "KubeletNotReady", "Unknown": "NodeStatusUnknown"}[status]
	cd := obj{"type": "Ready", "status": status, "reason": reason, "message": "set by health-bench", "lastTransitionTime": ts(trans)}
	if status != "Unknown" {
		cd["lastHeartbeatTime"] = ts(time.Now())
	}
	return c.patch("/api/v1/nodes/"+node+"/status", strategicPatch, obj{"status": obj{"conditions": []obj{cd}}})
}

// heartbeat rewrites only lastHeartbeatTime, in all four conditions, as a kubelet status report does.
func heartbeat(c *client, node string) error {
	now := ts(time.Now())
	var cs []obj
	for _, t := range []string{"MemoryPressure", "DiskPressure", "PIDPressure", "Ready"} {
		cs = append(cs, obj{"type": t, "lastHeartbeatTime": now})
	}
	return c.patch("/api/v1/nodes/"+node+"/status", strategicPatch, obj{"status": obj{"conditions": cs}})
}
