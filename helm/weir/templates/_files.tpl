{{/*
A generated file as it is (never through tpl: it holds Prometheus's own templates), with the address
of the runbooks put in where one is given, and the dashboards' own names.
*/}}
{{- define "weir.file" -}}
{{- $root := index . 0 -}}
{{- $text := $root.Files.Get (index . 1) -}}
{{- if $root.Values.runbooksUrl -}}
{{- $url := $root.Values.runbooksUrl | replace "$" "$$" | replace "'" "%27" -}}
{{- $to := ternary ($url | replace "{}" "${1}") (printf "%s/${1}" (trimSuffix "/" $url)) (contains "{}" $url) -}}
{{- $text = regexReplaceAll `\{\{ with query "[^"]*" \}\}http://\{\{[^}]*\}\}/runbooks/([A-Za-z]+)\{\{ end \}\}` $text $to -}}
{{- $text = regexReplaceAll `http://\$\{runbooks_at\}/runbooks/([A-Za-z]+)` $text $to -}}
{{- else if eq (include "weir.scheme" $root) "https" -}}
{{- $text = regexReplaceAll `http://(\{\{[^}]*\}\}|\$\{runbooks_at\})/runbooks/` $text "https://${1}/runbooks/" -}}
{{- end -}}
{{- $whose := include "weir.boardsOf" $root -}}
{{- if and $root.Values.dashboards.enabled (ne $whose $root.Chart.Name) -}}
{{- $text = regexReplaceAll "(\"uid\": \"|/d/)(weir-[a-z]+)" $text (printf "${1}${2}%s" (include "weir.boardsMark" $root)) -}}
{{- $text = regexReplaceAll "\"title\": \"(Weir / [^\"]+)\"" $text (printf "\"title\": \"${1} (%s)\"" $whose) -}}
{{- end -}}
{{- $text -}}
{{- end -}}

{{/*
Whose the dashboards are, among those that one Grafana may find: files, uids and titles must differ,
or each release overwrites the other's. A release that is called as the chart keeps the plain ones.
*/}}
{{- define "weir.boardsOf" -}}
{{- $away := and .Values.dashboards.namespace (ne .Values.dashboards.namespace .Release.Namespace) -}}
{{- if $away }}{{ .Release.Namespace }}/{{ end }}{{ include "weir.fullname" . -}}
{{- end -}}

{{/* Eight letters of a digest: a uid has 40 at most, a release's name more. */}}
{{- define "weir.boardsMark" -}}
{{- $whose := include "weir.boardsOf" . -}}
{{- if ne $whose .Chart.Name }}-{{ $whose | sha256sum | trunc 8 }}{{ end -}}
{{- end -}}
