//! Actors: futures that wait for answers and for time to pass. They run one at a time, on the world's thread.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use fencepost_types::Millis;

use crate::network::{Arrival, SimConnection};
use crate::rng::Rng;
use crate::world::{Event, MS, World};

/// A run that has not ended after so much time hangs.
const RUN_MS_MAX: u64 = 3_600_000;

/// An actor on its way.
pub type Actor = Pin<Box<dyn Future<Output = ()>>>;

/// A handle on the world that actors share.
#[derive(Clone)]
pub struct Handle(Rc<RefCell<World>>);

impl Handle {
    /// A handle on `world`.
    pub fn new(world: &Rc<RefCell<World>>) -> Self {
        Self(Rc::clone(world))
    }

    /// Connects to the broker as it runs now. `bears_late`: requests may arrive a second time when everything has gone on.
    pub fn connect(&self, bears_late: bool) -> SimConnection {
        self.0.borrow_mut().connect(bears_late)
    }

    /// Sends a frame and waits for the answer, at most `patience_ms`. `None`: nothing came, and the connection may be dead.
    pub async fn exchange(
        &self,
        connection: &SimConnection,
        frame: Bytes,
        label: &Rc<str>,
        patience_ms: u64,
    ) -> Option<Bytes> {
        let arrival = Rc::new(RefCell::new(Arrival::Waiting));
        {
            let mut world = self.0.borrow_mut();
            world.send(connection, frame, label, &arrival);
            world.plan(patience_ms * MS, Event::Arrive { arrival: Rc::clone(&arrival), with: None });
        }
        std::future::poll_fn(|_| match &mut *arrival.borrow_mut() {
            Arrival::Waiting => Poll::Pending,
            Arrival::Came(with) => Poll::Ready(with.take()),
        })
        .await
    }

    /// Lets time pass.
    pub async fn sleep(&self, ms: u64) {
        let until = {
            let mut world = self.0.borrow_mut();
            world.plan(ms * MS, Event::Wake);
            world.now + ms * MS
        };
        let ready = || if self.0.borrow().now >= until { Poll::Ready(()) } else { Poll::Pending };
        std::future::poll_fn(|_| ready()).await;
    }

    /// Wall time.
    pub fn wall(&self) -> Millis {
        self.0.borrow().wall()
    }

    /// Milliseconds since the start.
    pub fn elapsed_ms(&self) -> u64 {
        self.0.borrow().now / MS
    }

    /// A generator of one's own.
    pub fn fork_rng(&self) -> Rng {
        self.0.borrow_mut().rng.fork()
    }

    /// Writes a line into the trace.
    pub fn note(&self, line: &str) {
        self.0.borrow_mut().note(line);
    }

    /// Looks at the world, or does something to it.
    pub fn with_world<T>(&self, act: impl FnOnce(&mut World) -> T) -> T {
        act(&mut self.0.borrow_mut())
    }
}

/// Runs the world until every actor has ended. Panics when that takes too long: then something hangs.
pub fn run(world: &Rc<RefCell<World>>, mut actors: Vec<Actor>) {
    let mut context = Context::from_waker(Waker::noop());
    let end = world.borrow().now + RUN_MS_MAX * MS;
    loop {
        actors.retain_mut(|actor| actor.as_mut().poll(&mut context).is_pending());
        if actors.is_empty() {
            return;
        }
        assert!(world.borrow_mut().step(), "actors wait, and nothing will ever happen");
        assert!(world.borrow().now < end, "hangs: {} actors have not ended", actors.len());
    }
}
