//! A global allocator that counts the bytes which each simulated process holds.

use std::{
    alloc::{GlobalAlloc, Layout},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use tikv_jemallocator::Jemalloc;

use super::VIEW;

/// How many ids are counted apart; all above count as the last one.
const OWNERS: usize = 8192;

static HELD: [AtomicUsize; OWNERS] = [const { AtomicUsize::new(0) }; OWNERS];

/// The bytes that are held by what was allocated while this thread saw the process of an id.
#[must_use]
pub fn bytes_held(pid: i32) -> usize {
    counter(owner(pid)).load(Relaxed)
}

fn owner(pid: i32) -> usize {
    usize::try_from(pid).unwrap_or(0).min(OWNERS - 1)
}

#[allow(clippy::indexing_slicing, reason = "an owner is below OWNERS")]
fn counter(owner: usize) -> &'static AtomicUsize {
    &HELD[owner.min(OWNERS - 1)]
}

/// The allocator of the controller in production; before each block stands who allocated it.
#[derive(Debug)]
pub struct CountingAllocator;

/// A block with its header, and where the block begins in it.
fn with_header(layout: Layout) -> Option<(Layout, usize)> {
    let align = layout.align().max(16);
    let size = layout.size().checked_add(align)?;
    Some((Layout::from_size_align(size, align).ok()?, align))
}

#[allow(unsafe_code, reason = "the trait is declared so")]
mod allocator {
    use super::{CountingAllocator, GlobalAlloc, Jemalloc, Layout, Relaxed, VIEW};
    use super::{counter, owner, with_header};

    /// Where the owner of a block stands.
    ///
    /// # Safety
    /// The block was allocated with its header.
    unsafe fn header(block: *mut u8) -> *mut usize {
        // SAFETY: at least 16 bytes before the block belong to it, aligned as the block is.
        unsafe { block.sub(size_of::<usize>()).cast() }
    }

    // SAFETY: blocks come from jemalloc, shifted by a header that keeps their alignment.
    unsafe impl GlobalAlloc for CountingAllocator {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            let Some((whole, offset)) = with_header(layout) else {
                return std::ptr::null_mut();
            };
            // SAFETY: the layout is not empty, as it has a header.
            let start = unsafe { Jemalloc.alloc(whole) };
            if start.is_null() {
                return start;
            }
            let pid = VIEW.try_with(|view| view.get().map_or(0, |view| view.pid));
            let owner = owner(pid.unwrap_or(0));
            counter(owner).fetch_add(layout.size(), Relaxed);
            // SAFETY: the header lies within what was allocated.
            unsafe {
                let block = start.add(offset);
                header(block).write(owner);
                block
            }
        }

        unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
            let Some((whole, offset)) = with_header(layout) else {
                return;
            };
            // SAFETY: the block was allocated here with this layout.
            unsafe {
                counter(header(block).read()).fetch_sub(layout.size(), Relaxed);
                Jemalloc.dealloc(block.sub(offset), whole);
            }
        }

        unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
            let (Some((whole, offset)), Some(new)) = (
                with_header(layout),
                size.checked_add(layout.align().max(16)),
            ) else {
                return std::ptr::null_mut();
            };
            // SAFETY: the block was allocated here with this layout; its header moves with it.
            unsafe {
                let owner = header(block).read();
                let start = Jemalloc.realloc(block.sub(offset), whole, new);
                if start.is_null() {
                    return start;
                }
                counter(owner).fetch_add(size, Relaxed);
                counter(owner).fetch_sub(layout.size(), Relaxed);
                start.add(offset)
            }
        }
    }
}
