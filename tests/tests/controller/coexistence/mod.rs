//! Rackhand beside the controllers of other projects.

mod capi_manager;
mod cooperative;
mod ironic;
mod medik8s;
mod moved;
mod rival;
