{{/* The template of the pods of .workload. */}}
{{- define "groundwatch.pod" -}}
{{- $values := .root.Values -}}
metadata:
  labels:
    {{- include "groundwatch.workloadLabels" . | nindent 4 }}
    {{- with $values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    checksum/config: {{ include "groundwatch.config" .root | sha256sum }}
    {{- with $values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "groundwatch.serviceAccount" .root }}
  automountServiceAccountToken: false
  # Time to store what is open, and to hand partitions over.
  terminationGracePeriodSeconds: {{ add 30 (ceil ($values.config.shutdown_seconds | default 4)) }}
  securityContext:
    {{- include "groundwatch.podSecurity" .root | nindent 4 }}
  {{- with $values.image.pullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - name: {{ . }}
    {{- end }}
  {{- end }}
  {{- with $values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  containers:
    - name: groundwatch
      {{- include "groundwatch.container" . | nindent 6 }}
  volumes:
    - name: config
      configMap:
        name: {{ include "groundwatch.name" .root }}
    # The embedded engine starts in a temporary folder.
    - name: tmp
      emptyDir: {sizeLimit: 1Gi}
    {{- if not (and (eq .workload.kind "StatefulSet") $values.persistence.enabled) }}
    - name: data
      emptyDir: {}
    {{- end }}
    {{- with $values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- if $values.topologySpread.keys }}
  topologySpreadConstraints:
    {{- range $values.topologySpread.keys }}
    - maxSkew: 1
      topologyKey: {{ . }}
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "groundwatch.workloadSelector" $ | nindent 10 }}
    {{- end }}
  {{- end }}
  {{- with $values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{- define "groundwatch.container" -}}
{{- $numbers := dict "otlp-grpc" 4317 "otlp-http" 4318 "metrics" 9464 "review" 8088 -}}
image: {{ include "groundwatch.image" .root | quote }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
args: [run, -c, /etc/groundwatch/groundwatch.yaml{{ with .workload.role }}, --roles, {{ . }}{{ end }}]
{{- with include "groundwatch.env" .root | trim }}
env:
  {{- . | nindent 2 }}
{{- end }}
ports:
  {{- range .workload.ports }}
  - {name: {{ . }}, containerPort: {{ index $numbers . }}}
  {{- end }}
startupProbe:
  httpGet: {path: /healthz, port: metrics}
  periodSeconds: 5
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /healthz, port: metrics}
  periodSeconds: 30
  timeoutSeconds: 5
  failureThreshold: 10
# Not /readyz: while the store is away the journal goes on receiving.
readinessProbe:
  httpGet: {path: /healthz, port: metrics}
  periodSeconds: 10
  timeoutSeconds: 5
resources:
  {{- toYaml .workload.resources | nindent 2 }}
securityContext:
  {{- include "groundwatch.containerSecurity" .root | nindent 2 }}
volumeMounts:
  - {name: config, mountPath: /etc/groundwatch, readOnly: true}
  - {name: data, mountPath: /var/lib/groundwatch}
  - {name: tmp, mountPath: /tmp}
  {{- with .root.Values.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}
