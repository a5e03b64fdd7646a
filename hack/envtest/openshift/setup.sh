# Part of hack/setup: OpenShift's machine-healthcheck controller and its manifests, which tests run beside our
# controller.
# shellcheck shell=bash disable=SC2154 # $here and the functions are hack/setup's

openshift_module=github.com/openshift/machine-api-operator

openshift_dir=
ensure_openshift() {
	local version log
	version=$(version_of "$openshift_module" "$here/envtest/openshift/go.mod")
	[[ -n $version ]] || fail "cannot read the version of OpenShift's controller from $here/envtest/openshift/go.mod" \
		"Restore this file: git checkout -- hack/envtest"
	find_cache
	openshift_dir=$cache/openshift/$version-$(machine)
	[[ ! -e $openshift_dir/ready ]] || return 0
	check_go "OpenShift's machine-healthcheck controller"
	built_dir=$cache/openshift
	lock_builds "$built_dir"
	[[ ! -e $openshift_dir/ready ]] || return 0
	check_space
	log=$built_dir/.$version.log
	rm -rf "$openshift_dir"
	mkdir -p "$openshift_dir"
	unfinished+=("$log.unfinished")
	start_job "OpenShift's controller" 90 go_count "$log" compile_openshift "$log"
	wait_jobs "OpenShift's machine-healthcheck controller $version (kept in $openshift_dir)"
	touch "$openshift_dir/ready"
}

compile_openshift() {
	local log=$1 module=$here/envtest/openshift source
	built_dir=$openshift_dir go_build "$log" "$module" '-s -w' "$openshift_module/cmd/machine-healthcheck" || return
	source=$(in_module "$module" go list -m -f '{{.Dir}}' "$openshift_module") || return
	# Go keeps its modules read-only.
	cp -r --no-preserve=mode "$source/install" "$openshift_dir/install"
}
