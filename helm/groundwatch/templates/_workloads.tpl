{{/*
The kinds of pods, as a JSON list of {role, name, kind, ports, topics, replicas, resources, …}. The
one kind of mode single has no role, hence all of them, and the names of earlier versions.
*/}}
{{- define "groundwatch.workloads" -}}
{{- $name := include "groundwatch.name" . -}}
{{- $found := list -}}
{{- if eq .Values.mode "roles" -}}
  {{- $kinds := dict "processor" "StatefulSet" "judge" "StatefulSet" -}}
  {{- $ports := dict "receiver" (list "otlp-grpc" "otlp-http" "metrics") "review" (list "metrics" "review") -}}
  {{- $topics := dict "processor" "telemetry|signals|conversations" "judge" "judge" -}}
  {{- range $role := list "receiver" "processor" "judge" "reporter" "review" -}}
    {{- $own := dict "role" $role "name" (include "groundwatch.roleName" (dict "root" $ "role" $role)) -}}
    {{- $_ := set $own "kind" (dig $role "Deployment" $kinds) -}}
    {{- $_ := set $own "ports" (dig $role (list "metrics") $ports) -}}
    {{- $_ := set $own "topics" (dig $role "" $topics) -}}
    {{- $found = append $found (merge $own (index $.Values.roles $role)) -}}
  {{- end -}}
{{- else -}}
  {{- $own := dict "role" "" "name" $name "kind" "StatefulSet" "topics" "" -}}
  {{- $_ := set $own "ports" (list "otlp-grpc" "otlp-http" "metrics" "review") -}}
  {{- $_ := set $own "volumeSize" .Values.persistence.size -}}
  {{- $found = list (merge $own (pick .Values "replicas" "resources" "autoscaling" "keda")) -}}
{{- end -}}
{{- $found | toJson -}}
{{- end -}}

{{/* Kubernetes puts a hash of 11 behind a StatefulSet's name, and allows 63. */}}
{{- define "groundwatch.roleName" -}}
{{ include "groundwatch.name" .root | trunc 42 | trimSuffix "-" }}-{{ .role }}
{{- end -}}

{{/* Of .workload: whether its number of pods is set by a scaler. */}}
{{- define "groundwatch.scaled" -}}
{{- if or (dig "autoscaling" "enabled" false .workload) (dig "keda" "enabled" false .workload) -}}true{{- end -}}
{{- end -}}

{{/* Of .workload: never changes, for selectors and volume claims of what is installed cannot. */}}
{{- define "groundwatch.workloadSelector" -}}
{{ include "groundwatch.selector" .root }}
{{- with .workload.role }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end -}}

{{- define "groundwatch.workloadLabels" -}}
{{ include "groundwatch.labels" .root }}
{{- with .workload.role }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end -}}
