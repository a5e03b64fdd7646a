//! What is installed and removed: images, manifests, chart, plugin, rights.

mod chart;
mod image;
mod manifests;
mod plugin;
pub(crate) mod rights;
mod uninstall;
