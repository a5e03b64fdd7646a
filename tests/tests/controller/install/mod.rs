//! What is installed and removed: images, manifests, chart, plugin, rights.

mod chart;
mod image;
mod manifests;
mod plugin;
mod rights;
mod uninstall;
