//! Virtual time: one queue of events, and processes that run between them.
//!
//! A process is a tokio runtime with one thread, this one. It runs until it has nothing to do; its next
//! timer is an event like any other. So time passes in steps from event to event, and the order of
//! everything follows from the seed.

mod network;
mod process;
mod world;

pub use network::{Condition, Pipe, dial, listen};
pub use process::{ProcessId, Program, State};
pub use world::World;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use rackhand_interpose::{View, idle, show};
use tokio::runtime::Runtime;

/// The wall clock at the start of each simulation: 2030-01-01.
const EPOCH: Duration = Duration::from_secs(1_893_456_000);

/// Everything that a simulated part can reach. Cloning shares it.
#[derive(Clone)]
pub struct Simulation(Arc<Mutex<World>>);

impl Simulation {
    /// Access to the world, for a moment: whoever holds it must not run code of a process.
    pub fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock()
    }
}

impl std::fmt::Debug for Simulation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Simulation")
    }
}

/// The right wall clock at a time of the simulation.
#[must_use]
pub fn wall_clock(now: Duration) -> Timestamp {
    Timestamp::UNIX_EPOCH
        .checked_add(EPOCH + now)
        .unwrap_or(Timestamp::MAX)
}

/// Runs the events of a world.
pub struct Kernel {
    simulation: Simulation,
    programs: BTreeMap<ProcessId, Program>,
    runtimes: BTreeMap<ProcessId, Runtime>,
}

impl Kernel {
    /// A world in which nothing has happened. From here on this thread sees virtual time.
    #[must_use]
    pub fn new(world: World) -> Self {
        rackhand_interpose::seed(world.seed());
        show(Some(view(Duration::ZERO, State::default(), 1)));
        Self {
            simulation: Simulation(Arc::new(Mutex::new(world))),
            programs: BTreeMap::new(),
            runtimes: BTreeMap::new(),
        }
    }

    /// The way to the world.
    #[must_use]
    pub fn simulation(&self) -> Simulation {
        self.simulation.clone()
    }

    /// Adds a process, which starts at once, and again some time after each end.
    pub fn add(&mut self, name: &str, program: Program) -> ProcessId {
        let id = self.simulation.world().add_process(name);
        self.programs.insert(id, program);
        id
    }

    /// Runs everything until a time.
    ///
    /// # Errors
    /// A runtime cannot be made.
    pub fn run_until(&mut self, end: Duration) -> std::io::Result<()> {
        loop {
            self.settle()?;
            let mut world = self.simulation.world();
            let Some(action) = world.next(end) else {
                return Ok(());
            };
            action(&mut world);
        }
    }

    /// Carries out what the last event has left: ends and starts of processes, and their runs.
    fn settle(&mut self) -> std::io::Result<()> {
        loop {
            let (wakers, ended, started) = self.simulation.world().take_orders();
            for waker in wakers {
                waker.wake();
            }
            for id in ended {
                self.look_as(id);
                if let Some(runtime) = self.runtimes.remove(&id) {
                    runtime.shutdown_background();
                }
            }
            for id in started {
                self.start(id)?;
            }
            let next = self.simulation.world().next_runnable();
            match next {
                Some(id) => self.run(id),
                None if self.simulation.world().has_orders() => {}
                None => break,
            }
        }
        show(Some(self.simulation.world().view()));
        Ok(())
    }

    /// From here on this thread sees what a process sees.
    fn look_as(&self, id: ProcessId) {
        let world = self.simulation.world();
        show(Some(view(world.now(), world.state(id), id.0)));
    }

    fn start(&mut self, id: ProcessId) -> std::io::Result<()> {
        let Some(program) = self.programs.get(&id) else {
            return Ok(());
        };
        self.look_as(id);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (simulation, main) = (self.simulation.clone(), program(id));
        runtime.spawn(async move {
            let end = main.await;
            simulation.world().end_process(id, &end);
        });
        self.runtimes.insert(id, runtime);
        self.simulation.world().make_runnable(id);
        Ok(())
    }

    fn run(&mut self, id: ProcessId) {
        let Some(runtime) = self.runtimes.get(&id) else {
            return;
        };
        self.look_as(id);
        let wait = runtime.block_on(idle());
        self.simulation.world().sleep(id, wait);
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        for (id, runtime) in std::mem::take(&mut self.runtimes) {
            self.look_as(id);
            runtime.shutdown_background();
        }
        show(None);
    }
}

/// What a process sees at a time.
fn view(now: Duration, state: State, pid: i32) -> View {
    // Times before the start are computed by some code.
    let uptime = Duration::from_secs(1_000_000) + now;
    View {
        monotonic: uptime.saturating_sub(state.suspended),
        boot: process::shift(uptime, state.origin_error),
        wall: process::shift(EPOCH + now, state.wall_error),
        pid,
    }
}
