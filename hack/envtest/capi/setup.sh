# Part of hack/setup: Cluster API's manager and its manifests, which tests run beside our controller.
# shellcheck shell=bash disable=SC2154 # $here and the functions are hack/setup's

capi_module=sigs.k8s.io/cluster-api

capi_dir=
ensure_capi() {
	local version arch log config start=$SECONDS v=$capi_module/version
	version=$(version_of "$capi_module" "$here/envtest/capi/go.mod")
	[[ -n $version ]] || fail "cannot read the version of Cluster API from $here/envtest/capi/go.mod" \
		"Restore this file: git checkout -- hack/envtest"
	find_cache
	arch=$(machine)
	capi_dir=$cache/cluster-api/$version-$arch
	[[ ! -e $capi_dir/ready ]] || return 0
	check_go "Cluster API's manager"
	built_dir=$cache/cluster-api
	lock_builds "$built_dir"
	[[ ! -e $capi_dir/ready ]] || return 0
	check_space
	say "building Cluster API's manager $version (about 2 min on two cores, cached in $capi_dir for the next time)"
	rm -rf "$capi_dir"
	mkdir -p "$capi_dir"
	log=$built_dir/.$version.log
	# The stamp is what its own release build sets.
	if ! run_logged "$log" env -C "$here/envtest/capi" -u GOOS -u GOARCH GOFLAGS=-mod=readonly GO111MODULE=on GOWORK=off CGO_ENABLED=0 \
		nice -n 5 go build -v -trimpath -ldflags "-s -w -X $v.gitVersion=$version -X $v.gitTreeState=clean" \
		-o "$capi_dir/manager" "$capi_module"; then
		explain_failure "building Cluster API's manager" "$log"
		exit 1
	fi
	config=$(env -C "$here/envtest/capi" GOFLAGS=-mod=readonly GOWORK=off go list -m -f '{{.Dir}}' "$capi_module")/config
	# Go keeps its modules read-only.
	cp -r --no-preserve=mode "$config" "$capi_dir/config"
	touch "$capi_dir/ready"
	rm -f "$log"
	more "done after $(duration $((SECONDS - start)))"
}
