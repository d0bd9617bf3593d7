{{/* Release names hold a dot (namespace.instance), which names of Services must not. */}}
{{- define "cache.name" -}}
{{ .Release.Name | replace "." "-" }}
{{- end }}

{{- define "cache.selector" -}}
app.kubernetes.io/name: cache
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "cache.labels" -}}
{{ include "cache.selector" . }}
app.kubernetes.io/version: {{ .Chart.Version | quote }}
{{- end }}
