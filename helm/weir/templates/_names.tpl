{{/* Names and labels of every object. */}}

{{- define "weir.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $whole := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- default $whole .Values.fullnameOverride | trunc 50 | trimAll "-." -}}
{{- end -}}

{{- define "weir.nameLabel" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" | quote }}
{{- end -}}

{{- define "weir.selectorLabels" -}}
{{ include "weir.nameLabel" . }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{/* Those that the chart sets itself: nobody else may. */}}
{{- define "weir.ownLabels" -}}
{{ include "weir.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" | quote }}
{{- end -}}

{{- define "weir.labels" -}}
{{- include "weir.labelsWith" (list . dict) -}}
{{- end -}}

{{/* The labels of an object that has some of its own, which win over commonLabels. */}}
{{- define "weir.labelsWith" -}}
{{- $root := index . 0 -}}
{{- include "weir.ownLabels" $root }}
{{- with merge (deepCopy (default dict (index . 1))) (default dict $root.Values.commonLabels) }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/*
Whose something is, for who is to find it under any tool. Of a driver's pod the name and instance labels stay the
driver's own, and Argo CD, where it tracks by label, writes its application's name over those of a Service. Under an alias in a
parent chart it is the release's name and the alias, with "_" between, which no release's name has: each of two finds
its own, also where a label has no room for both. Elsewhere it stays the release's name: drivers run on with the
template of an older chart.
*/}}
{{- define "weir.instanceLabel" -}}
{{- $whole := ternary .Release.Name (printf "%s_%s" .Release.Name .Chart.Name) (eq .Chart.Name "weir") -}}
{{- if gt (len $whole) 63 -}}{{- $whole = printf "%s-%s" (trunc 54 $whole) ($whole | sha256sum | trunc 8) -}}{{- end -}}
weir.agent/instance: {{ trimAll "-_" $whole | quote }}
{{- end -}}

{{- define "weir.secretName" -}}
{{- default (printf "%s-token" (include "weir.fullname" .)) .Values.token.existingSecret -}}
{{- end -}}

{{/* The Secret with the token that opens events alone; empty where drivers have the one that opens all. */}}
{{- define "weir.driverSecretName" -}}
{{- if .Values.token.create -}}
{{- /* Spark mounts it as a volume of its name and "-volume", of 63 characters at most. */ -}}
{{- printf "%s-driver-token" (include "weir.fullname" . | trunc 43 | trimAll "-.") -}}
{{- else -}}
{{- default "" .Values.token.driverSecret -}}
{{- end -}}
{{- end -}}

{{/* Whether Spark can mount the Secret of this name: as a volume of its name and "-volume". */}}
{{- define "weir.sparkMounts" -}}
{{- if regexMatch "^[-a-z0-9]{1,56}$" . -}}true{{- end -}}
{{- end -}}

{{- define "weir.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "weir.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "weir.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}
