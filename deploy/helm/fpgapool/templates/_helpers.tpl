{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{/* Labels by which objects of a component are found: list of root, component. */}}
{{- define "fpgapool.selector" -}}
app.kubernetes.io/name: fpgapool
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{/* Metadata of an object: list of root, component, suffix of its name. */}}
{{- define "fpgapool.metadata" -}}
name: fpgapool-{{ index . 2 }}
namespace: {{ (index . 0).Release.Namespace }}
labels:
  {{- include "fpgapool.selector" . | nindent 2 }}
  app.kubernetes.io/version: {{ (index . 0).Chart.AppVersion | quote }}
  app.kubernetes.io/managed-by: {{ (index . 0).Release.Service }}
  helm.sh/chart: {{ (index . 0).Chart.Name }}-{{ (index . 0).Chart.Version }}
{{- end }}

{{/* Sections of options as a file. A list is an option that repeats. */}}
{{- define "fpgapool.ini" -}}
{{- range $section, $options := . }}
[{{ $section }}]
{{- range $option, $value := $options }}
{{- range (kindIs "slice" $value | ternary $value (list $value)) }}
{{- /* All numbers of values are floats; large ones would have an exponent. */}}
{{- if and (kindIs "float64" .) (eq . (floor .)) }}
{{ $option }} = {{ int64 . }}
{{- else }}
{{ $option }} = {{ . }}
{{- end }}
{{- end }}
{{- end }}
{{ end }}
{{- end }}

{{/* Options of controllers that are no secrets. */}}
{{- define "fpgapool.conf" -}}
{{- $v := .Values }}
{{- $user := dict "auth_type" "password" "auth_url" $v.endpoints.auth_url
    "username" $v.keystone.user "project_name" $v.keystone.project
    "user_domain_id" "default" "project_domain_id" "default"
    "region_name" $v.endpoints.region }}
{{- $conf := dict
    "DEFAULT" (dict "state_path" "/var/lib/fpgapool/state")
    "keystone_authtoken" (merge
      (dict "www_authenticate_uri" $v.endpoints.auth_url) $user)
    "messages" (dict "pool_key_file" "/etc/fpgapool-secret/pool.key") }}
{{- if $v.nova }}
{{- $_ := set $conf "nova" $user }}
{{- $_ := set $conf "placement" $user }}
{{- $_ := set $conf "vendordata" (dict "api_url" $v.endpoints.public_url) }}
{{- end }}
{{- if $v.conf.policy }}
{{- $_ := set $conf "oslo_policy"
    (dict "policy_file" "/etc/fpgapool/policy.yaml") }}
{{- end }}
{{- include "fpgapool.ini"
    (mergeOverwrite (deepCopy $conf) $v.conf.fpgapool) }}
{{- end }}

{{/* Options of controllers that are secrets. */}}
{{- define "fpgapool.secretconf" -}}
{{- $v := .Values.secrets }}
{{- $password := dict "password"
    (required "secrets.service_password is missing" $v.service_password) }}
{{- $conf := dict
    "DEFAULT" (dict "transport_url"
      (required "secrets.transport_url is missing" $v.transport_url))
    "database" (dict "connection"
      (required "secrets.database_url is missing" $v.database_url))
    "keystone_authtoken" $password }}
{{- if .Values.nova }}
{{- $_ := set $conf "nova" $password }}
{{- $_ := set $conf "placement" $password }}
{{- end }}
{{- if $v.token_keys }}
{{- $_ := set $conf "vendordata" (dict "token_keys" $v.token_keys) }}
{{- end }}
{{- /* A dollar would begin the name of another option. */}}
{{- include "fpgapool.ini" $conf | replace "$" "$$" }}
{{- end }}

{{/* Options of agents. What differs from host to host lies on the hosts. */}}
{{- define "fpgapool.agentconf" -}}
{{- $conf := dict
    "agent" (dict "data_ports" "61000-61255")
    "messages" (dict "host_key_file" "/etc/fpgapool/host/host.key") }}
{{- if .Values.conf.boards }}
{{- $_ := set $conf "emulator"
    (dict "boards_file" "/etc/fpgapool/boards.yaml") }}
{{- end }}
{{- include "fpgapool.ini" (mergeOverwrite $conf .Values.conf.agent) }}
{{- end }}

{{/* The Secret's name. */}}
{{- define "fpgapool.secret" -}}
{{ .Values.secrets.existing | default "fpgapool-secret" }}
{{- end }}

{{/* Changes with what pods read only when they start. */}}
{{- define "fpgapool.checksum" -}}
{{ list .Values.image .Values.conf .Values.secrets .Values.endpoints
   .Values.keystone .Values.nova | toJson | sha256sum }}
{{- end }}

{{- define "fpgapool.image" -}}
image: {{ .Values.image.name }}
imagePullPolicy: {{ .Values.image.pull_policy }}
{{- end }}

{{/* What all pods have: list of root, kind of nodes. */}}
{{- define "fpgapool.pod" -}}
{{- $v := (index . 0).Values -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with $v.image.pull_secrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
nodeSelector: {{ index $v.labels (index . 1) | toJson }}
{{- with index $v.pod.tolerations (index . 1) }}
tolerations: {{ toJson . }}
{{- end }}
{{- end }}

{{/* What all pods of controllers and jobs have: root. */}}
{{- define "fpgapool.controlpod" -}}
{{- include "fpgapool.pod" (list . "control") }}
securityContext:
  runAsNonRoot: true
  runAsUser: {{ .Values.pod.uid }}
  runAsGroup: {{ .Values.pod.uid }}
  fsGroup: {{ .Values.pod.uid }}
  seccompProfile:
    type: RuntimeDefault
volumes:
  - name: etc
    configMap:
      name: fpgapool-etc
  - name: secret
    secret:
      secretName: {{ include "fpgapool.secret" . }}
      defaultMode: 0440
      items:
        - {key: secret.conf, path: secret.conf}
        - {key: pool.key, path: pool.key}
  - name: state
    emptyDir: {}
  - name: tmp
    emptyDir: {}
{{- end }}

{{/* What all containers of controllers and jobs have: root. */}}
{{- define "fpgapool.controlcontainer" -}}
{{ include "fpgapool.image" . }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
volumeMounts:
  - {name: etc, mountPath: /etc/fpgapool, readOnly: true}
  - {name: secret, mountPath: /etc/fpgapool-secret, readOnly: true}
  - {name: state, mountPath: /var/lib/fpgapool}
  - {name: tmp, mountPath: /tmp}
{{- end }}

{{- define "fpgapool.configfiles" -}}
--config-file /etc/fpgapool/fpgapool.conf --config-file /etc/fpgapool-secret/secret.conf
{{- end }}
