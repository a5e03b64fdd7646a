# Part of hack/setup: what it writes to standard error.
# shellcheck shell=bash

say() { printf 'setup: %s\n' "$*" >&2; }
more() { printf '       %s\n' "$@" >&2; }
fail() {
	say "$1"
	shift
	(($# == 0)) || more "$@"
	exit 1
}
have() { command -v "$1" >/dev/null 2>&1; }

duration() {
	if (($1 < 60)); then printf '%d s' "$1"; else printf '%d min %d s' $(($1 / 60)) $(($1 % 60)); fi
}

# rough SECONDS: a duration as an estimate is given.
rough() {
	if (($1 < 20)); then
		printf 'a few seconds'
	elif (($1 < 60)); then
		printf 'about %d s' $((($1 + 9) / 10 * 10))
	else
		printf 'about %d min' $((($1 + 30) / 60))
	fi
}
