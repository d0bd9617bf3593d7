{{/* Release names hold a dot (namespace.instance), which names of Services must not. */}}
{{- define "webapp.name" -}}
{{ .Release.Name | replace "." "-" }}
{{- end }}

{{- define "webapp.selector" -}}
app.kubernetes.io/name: webapp
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "webapp.labels" -}}
{{ include "webapp.selector" . }}
app.kubernetes.io/version: {{ .Chart.Version | quote }}
{{- end }}
