# Part of hack/setup: Cluster API's manager and its manifests, which tests run beside our controller, and a program
# that moves a namespace by the library of its clusterctl.
# shellcheck shell=bash disable=SC2154 # $here and the functions are hack/setup's

capi_module=sigs.k8s.io/cluster-api

capi_dir=
ensure_capi() {
	local version sum flags v=$capi_module/version
	version=$(version_of "$capi_module" "$here/envtest/capi/go.mod")
	[[ -n $version ]] || fail "cannot read the version of Cluster API from $here/envtest/capi/go.mod" \
		"Restore this file: git checkout -- hack/envtest"
	sum=$(cat "$here/envtest/capi/"{go.sum,move/main.go} | sha256sum | cut -c 1-12)
	find_cache
	capi_dir=$cache/cluster-api/$version-$(machine)
	! { has_manager && has_move "$sum"; } || return 0
	check_go "Cluster API's manager"
	built_dir=$cache/cluster-api
	lock_builds "$built_dir"
	check_space
	# The stamp is what its own release build sets.
	flags="-s -w -X $v.gitVersion=$version -X $v.gitTreeState=clean"
	has_manager || build_manager "$version" "$flags"
	has_move "$sum" || build_move "$version" "$flags" "$sum"
}

has_manager() { [[ -e $capi_dir/ready ]]; }

# has_move SUM: whether the program is of these sources. Its own are small, so that a change need not build the
# manager again.
has_move() { [[ -e $capi_dir/move.sum && $(<"$capi_dir/move.sum") == "$1" ]]; }

build_manager() {
	local log=$built_dir/.$1.log
	rm -rf "$capi_dir"
	mkdir -p "$capi_dir"
	start_job "Cluster API" 120 go_count "$log" compile_manager "$log" "$2"
	wait_jobs "Cluster API's manager $1 (kept in $capi_dir)"
	touch "$capi_dir/ready"
}

compile_manager() {
	local log=$1 module=$here/envtest/capi config
	built_dir=$capi_dir go_build "$log" "$module" "$2" "$capi_module/core" || return
	mv "$capi_dir/core" "$capi_dir/manager"
	config=$(in_module "$module" go list -m -f '{{.Dir}}' "$capi_module")/core/config || return
	# Go keeps its modules read-only.
	cp -r --no-preserve=mode "$config" "$capi_dir/config"
}

build_move() {
	local log=$built_dir/.$1.move.log
	rm -f "$capi_dir/move.sum"
	start_job "clusterctl's library" 30 go_count "$log" compile_move "$log" "$2"
	wait_jobs "a program that moves by clusterctl's library $1 (kept in $capi_dir)"
	printf '%s\n' "$3" >"$capi_dir/move.sum"
}

compile_move() { built_dir=$capi_dir go_build "$1" "$here/envtest/capi" "$2" ./move; }
