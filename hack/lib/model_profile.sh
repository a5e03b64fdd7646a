# Sourced by hack/check-model and hack/simulate.
# shellcheck shell=bash

# Builds the model checker and the simulator. Both and without -p: one selection of features for both, so that
# nothing is compiled twice.
build_model_profile() {
	cargo build --quiet --locked --profile model --workspace --bin rackhand-model --bin rackhand-simulator
}
