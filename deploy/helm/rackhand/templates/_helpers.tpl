{{/* Labels of every object. */}}
{{- define "rackhand.labels" -}}
app.kubernetes.io/name: rackhand
app.kubernetes.io/part-of: rackhand
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "rackhand.controller" -}}
{{ .Values.namePrefix }}-controller
{{- end }}

{{/* Selector of the controller's pods. */}}
{{- define "rackhand.controllerSelector" -}}
app.kubernetes.io/name: {{ .Values.namePrefix }}
app.kubernetes.io/component: controller
{{- end }}

{{- define "rackhand.controllerTls" -}}
{{ .Values.controller.tlsSecret | default (printf "%s-tls" (include "rackhand.controller" .)) }}
{{- end }}

{{/* The issuer's name. */}}
{{- define "rackhand.issuer" -}}
{{ .Values.certManager.issuer.name | default (printf "%s-ca" .Values.namePrefix) }}
{{- end }}

{{/*
Objects of manifests that kustomize uses too: names begin with namePrefix, objects
are in the release's namespace, and every object has the chart's labels.
Arguments: root, path (a glob under files/), annotations (optional).
*/}}
{{- define "rackhand.shared" -}}
{{- $root := .root -}}
{{- $annotations := .annotations | default dict -}}
{{- range $path, $_ := $root.Files.Glob .path }}
{{- $text := $root.Files.Get $path | replace "rackhand-system" $root.Release.Namespace | replace "rackhand-" (printf "%s-" $root.Values.namePrefix) }}
{{- range $document := regexSplit "(?m)^---$" $text -1 }}
{{- $object := fromYaml $document }}
{{- if $object.kind }}
{{- $_ := set $object.metadata "labels" (merge ($object.metadata.labels | default dict) (include "rackhand.labels" $root | fromYaml)) }}
{{- with $annotations }}
{{- $_ := set $object.metadata "annotations" (merge ($object.metadata.annotations | default dict) .) }}
{{- end }}
---
{{ toYaml $object }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
