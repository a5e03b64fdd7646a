//! A global allocator that counts the bytes which each simulated process holds.

use std::{
    alloc::{GlobalAlloc, Layout},
    cell::Cell,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use tikv_jemallocator::Jemalloc;

/// How many ids are counted apart; all above count as the last one.
const OWNERS: usize = 8192;

static HELD: [AtomicUsize; OWNERS] = [const { AtomicUsize::new(0) }; OWNERS];

thread_local! {
    /// Who owns what this thread allocates.
    static OWNER: Cell<usize> = const { Cell::new(0) };
}

/// The bytes that are held by what was allocated while this thread saw the process of an id. Right as long as
/// one thread runs simulations.
#[must_use]
pub fn bytes_held(pid: i32) -> usize {
    counter(owner(pid)).load(Relaxed)
}

/// From now on, this thread allocates for the process of an id.
pub(super) fn allocate_for(pid: i32) {
    OWNER.set(owner(pid));
}

fn owner(pid: i32) -> usize {
    usize::try_from(pid).unwrap_or(0).min(OWNERS - 1)
}

#[allow(clippy::indexing_slicing, reason = "an owner is below OWNERS")]
fn counter(owner: usize) -> &'static AtomicUsize {
    &HELD[owner.min(OWNERS - 1)]
}

/// Adds to what an owner holds, and takes from it, without a locked instruction: this runs at each allocation.
fn count(owner: usize, more: usize, less: usize) {
    let held = counter(owner);
    let now = held.load(Relaxed).wrapping_add(more).wrapping_sub(less);
    held.store(now, Relaxed);
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
    use super::{CountingAllocator, GlobalAlloc, Jemalloc, Layout, OWNER, count, with_header};

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
            let owner = OWNER.get();
            count(owner, layout.size(), 0);
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
                count(header(block).read(), 0, layout.size());
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
                count(owner, size, layout.size());
                start.add(offset)
            }
        }
    }
}
