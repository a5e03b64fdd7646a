# Part of hack/setup: etcd and the Kubernetes programs that the tests and the demo start.
# shellcheck shell=bash disable=SC2154 # $here and the functions are hack/setup's

programs=(etcd kube-apiserver kube-controller-manager kube-scheduler)

# The go.mod files are the one place that says which versions are built.
version_of() { sed -nE "s|^(require)?[[:space:]]*$1 (v[^ ]+)( //.*)?\$|\2|p" "$2" | head -n 1; }

read_versions() {
	kubernetes_version=$(version_of k8s.io/kubernetes "$here/envtest/kubernetes/go.mod")
	etcd_version=$(version_of go.etcd.io/etcd/server/v3 "$here/envtest/etcd/go.mod")
	[[ -n $kubernetes_version && -n $etcd_version ]] ||
		fail "cannot read the versions of Kubernetes and etcd from $here/envtest/*/go.mod" \
			"Restore these files: git checkout -- hack/envtest"
	find_cache
	built_dir=$cache/kubernetes/$kubernetes_version-etcd${etcd_version#v}-$(machine)
}

# machine: system and processor, as Go calls them.
machine() {
	local arch
	arch=$(uname -m)
	case $arch in
	x86_64) arch=amd64 ;;
	aarch64 | arm64) arch=arm64 ;;
	esac
	printf '%s-%s' "$(uname -s | tr '[:upper:]' '[:lower:]')" "$arch"
}

# absent DIR PROGRAM...: the programs that DIR lacks.
absent() {
	local dir=$1 program
	shift
	for program in "$@"; do
		[[ -f $dir/$program && -x $dir/$program ]] || printf '%s ' "$program"
	done
}

check_go() {
	have go || fail "there is no go on PATH, and $1 has to be built" \
		"Install Go $(sed -nE 's/^go //p' "$here/envtest/kubernetes/go.mod") or later and run this again," \
		"or set KUBEBUILDER_ASSETS to a folder with your own ${programs[*]}."
	local wanted found
	wanted=$(sed -nE 's/^go //p' "$here/envtest/kubernetes/go.mod")
	# From outside the module: inside, a go that is too old says only that.
	found=$(cd / && go env GOVERSION)
	found=${found#go}
	found=${found%% *}
	if [[ $(printf '%s\n' "$wanted" "$found" | sort -V | head -n 1) != "$wanted" ]]; then
		# Go fetches a newer toolchain by itself since 1.21, unless told not to.
		if [[ $(printf '%s\n' 1.21 "$found" | sort -V | head -n 1) != 1.21 || $(cd / && go env GOTOOLCHAIN) == local ]]; then
			fail "$1 needs Go $wanted, and this is Go $found" \
				"Install a newer Go (or, from Go 1.21 on, set GOTOOLCHAIN=auto) and run this again."
		fi
		say "Go $found fetches the toolchain that $1 needs (Go $wanted) by itself"
	fi
}

check_space() {
	local free
	free=$(df -Pk "$built_dir" | awk 'NR == 2 { print int($4 / 1048576) }')
	((free >= 5)) || say "only $free GB are free on the disk of $built_dir; the build needs about 5 GB with Go's own caches"
}

# in_module DIR COMMAND...: without the caller's GOFLAGS, GOOS and the like, which are meant for
# other builds. Where modules come from (GOPROXY, GONOSUMDB, GOTOOLCHAIN) stays as it is set.
in_module() {
	local module=$1
	shift
	env -C "$module" -u GOOS -u GOARCH GOFLAGS=-mod=readonly GO111MODULE=on GOWORK=off CGO_ENABLED=0 nice -n 5 "$@"
}

# go_build LOG MODULE FLAGS PACKAGE...: builds programs into built_dir, each under its own name only
# when it is whole.
go_build() {
	local log=$1 module=$2 flags=$3 built=$1.unfinished program
	shift 3
	# remove_all_sd: Prometheus without the clients of clouds.
	local options=(-trimpath -tags "notest,grpcnotrace,remove_all_sd" -ldflags "$flags")
	rm -rf "$built"
	mkdir -p "$built"
	rm -f "$log.total"
	# The list makes Go fetch what is missing, and counts what is not compiled yet.
	in_module "$module" go list -deps "${options[@]}" -f '{{if .Stale}}stale{{end}}' "$@" >"$log.stale" || return
	grep -c stale "$log.stale" >"$log.total" || true
	in_module "$module" go build -v "${options[@]}" -o "$built/" "$@" || return
	for program in "$built"/*; do mv "$program" "$built_dir/"; done
	rm -rf "$built" "$log" "$log.stale" "$log.total"
}

# go_count LOG: how far go_build is.
go_count() {
	local total count
	if [[ ! -s $1.total ]]; then
		count=$(grep -c '^go: downloading' "$1") || true
		if ((count)); then printf '0 0 %d modules fetched\n' "$count"; else printf '0 0 reading packages\n'; fi
		return
	fi
	total=$(<"$1.total")
	count=$(grep -cv '^go: ' "$1") || true
	if ((count < total)); then
		printf '%d %d packages\n' "$count" "$total"
	else
		printf '%d %d packages, linking\n' "$total" "$total"
	fi
}

# start_etcd_build, start_kubernetes_build PROGRAM...: as jobs of hack/lib/jobs.sh.
start_etcd_build() {
	local log=$built_dir/.etcd.log
	unfinished+=("$log.unfinished")
	start_job etcd 45 go_count "$log" go_build "$log" "$here/envtest/etcd" '-s -w' .
}

start_kubernetes_build() {
	local log=$built_dir/.kubernetes.log flags='-s -w' p minor=${kubernetes_version#v*.} seconds=60 program
	# What Kubernetes' own release build stamps; without it /version answers v0.0.0-master.
	for p in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
		flags+=" -X $p.gitVersion=$kubernetes_version -X $p.gitMajor=1 -X $p.gitMinor=${minor%%.*} -X $p.gitCommit= -X $p.gitTreeState=clean"
	done
	for program in "$@"; do
		case $program in
		kube-apiserver) seconds=$((seconds + 180)) ;;
		*) seconds=$((seconds + 60)) ;;
		esac
	done
	unfinished+=("$log.unfinished")
	start_job Kubernetes "$seconds" go_count "$log" go_build "$log" "$here/envtest/kubernetes" "$flags" "${@/#/k8s.io/kubernetes/cmd/}"
}

# start_builds PROGRAM...: jobs for those of etcd and Kubernetes that built_dir lacks.
start_builds() {
	local lacking
	check_go "Kubernetes $kubernetes_version"
	lock_builds "$built_dir"
	check_space
	# A run that held the lock before this one may have built some.
	read -ra lacking <<<"$(absent "$built_dir" "$@")"
	if [[ ${lacking[0]:-} == etcd ]]; then
		start_etcd_build
		lacking=("${lacking[@]:1}")
	fi
	((${#lacking[@]} == 0)) || start_kubernetes_build "${lacking[@]}"
}

# find_assets: sets assets_dir to where the programs are or will be; fails if they must be built.
assets_dir=
find_assets() {
	local lacking dir path_dirs
	if [[ -n ${KUBEBUILDER_ASSETS:-} ]]; then
		lacking=$(absent "$KUBEBUILDER_ASSETS" "${programs[@]}")
		if [[ -z $lacking ]]; then
			assets_dir=$(cd "$KUBEBUILDER_ASSETS" && pwd)
			return
		fi
		say "KUBEBUILDER_ASSETS=$KUBEBUILDER_ASSETS lacks ${lacking% }; looking elsewhere"
	fi
	IFS=: read -ra path_dirs <<<"$PATH"
	for dir in "${path_dirs[@]}"; do
		if [[ $dir == /* && -x $dir/etcd && -z $(absent "$dir" "${programs[@]}") ]]; then
			assets_dir=$dir
			return
		fi
	done
	read_versions
	assets_dir=$built_dir
	[[ -z $(absent "$built_dir" "${programs[@]}") ]]
}

ensure_assets() {
	find_assets || build_programs "${programs[@]}"
}

# find_kubectl: sets kubectl_path likewise.
kubectl_path=
find_kubectl() {
	if have kubectl; then
		kubectl_path=$(command -v kubectl)
		return
	fi
	if [[ -n ${KUBEBUILDER_ASSETS:-} && -x $KUBEBUILDER_ASSETS/kubectl ]]; then
		kubectl_path=$(cd "$KUBEBUILDER_ASSETS" && pwd)/kubectl
		return
	fi
	read_versions
	kubectl_path=$built_dir/kubectl
	[[ -x $kubectl_path ]]
}

ensure_kubectl() {
	find_kubectl || build_programs kubectl
}

# build_programs PROGRAM...: those of these that built_dir lacks.
build_programs() {
	start_builds "$@"
	wait_jobs "${job_names[*]} (Kubernetes $kubernetes_version, etcd $etcd_version; kept in $built_dir)"
}
