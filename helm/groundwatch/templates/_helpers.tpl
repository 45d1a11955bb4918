{{- define "groundwatch.name" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains "groundwatch" .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-groundwatch" (.Release.Name | trunc 38 | trimSuffix "-") -}}
{{- end -}}
{{- end -}}

{{/* Never changes: selectors and volume claims of a StatefulSet cannot. */}}
{{- define "groundwatch.selector" -}}
app.kubernetes.io/name: groundwatch
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "groundwatch.labels" -}}
{{ include "groundwatch.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name (.Chart.Version | replace "+" "_") }}
{{- end -}}

{{- define "groundwatch.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- define "groundwatch.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "groundwatch.name" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{/* The program's file: what was given, and what belongs to the pod. */}}
{{- define "groundwatch.config" -}}
{{- $listen := dict "otlp_grpc" "0.0.0.0:4317" "otlp_http" "0.0.0.0:4318" "metrics" "0.0.0.0:9464" "review" "0.0.0.0:8088" -}}
{{- merge (dict "data_dir" "/var/lib/groundwatch" "listen" $listen) .Values.config | toYaml -}}
{{- end -}}

{{- define "groundwatch.env" -}}
{{- range $variable, $from := .Values.secretEnv }}
- name: {{ $variable }}
  valueFrom:
    secretKeyRef:
      name: {{ $from.name }}
      key: {{ $from.key }}
{{- end }}
{{- range $variable, $value := .Values.env }}
- name: {{ $variable }}
  value: {{ $value | quote }}
{{- end }}
{{- end -}}

{{- define "groundwatch.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "groundwatch.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}
