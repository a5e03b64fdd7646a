# Sourced by hack/check-model and hack/simulate.
# shellcheck shell=bash

# The profile of cargo: model is optimised, and takes minutes to build; with RACKHAND_PROFILE=dev what the tests have
# built is used, which needs no build and runs slower: the model checker by a third, the simulator six times.
profile=${RACKHAND_PROFILE:-model}

# Builds the model checker and the simulator. Both and without -p: one selection of features for both, so that
# nothing is compiled twice.
build_programs() {
	if [[ $profile == dev ]]; then
		cargo build --quiet --locked --workspace --bins --examples
		programs=${CARGO_TARGET_DIR:-target}/debug
	else
		cargo build --quiet --locked --profile "$profile" --workspace --bin rackhand-model --bin rackhand-simulator
		programs=${CARGO_TARGET_DIR:-target}/$profile
	fi
}
