//! WebAssembly within limits: an interpreter, since nothing may depend on the host's processor.
//!
//! The crate stands apart from `policy-module`, so that live programs can load it as a library when
//! a description names a module, and link nothing of it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use halfwink_policy::record::Fields;
use halfwink_policy_module::{
    set_translator, Block, Code, Family, Limits, Started, Translated, ABI, BYTES,
};
use wasmi::{
    CompilationMode, Config, EnforcedLimits, Engine, Linker, Memory, Module, ResourceLimiter,
    Store, StoreLimits, StoreLimitsBuilder, TrapCode, TypedFunc,
};
use wasmi_core::LimiterError;

/// Most memory of a policy, in bytes. Each core has a policy of its own.
pub const MOST_MEMORY: usize = 4 << 20;
/// Most memory of all policies of a run, in bytes.
pub const MOST_TOGETHER: usize = 1 << 30;
/// Most elements of a module's table of functions.
const MOST_ELEMENTS: usize = 10_000;
/// Most bytes of what a module says of itself.
const MOST_ABOUT: usize = 64 << 10;
/// Reference to the page that describes the interface.
const SEE: &str = "see docs/own-policy.md";

fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| {
        let mut config = Config::default();
        config.consume_fuel(true);
        // Translating lazily would take from the fuel of the first calls.
        config.compilation_mode(CompilationMode::Eager);
        config.enforced_limits(EnforcedLimits::strict());
        config.wasm_multi_memory(false);
        config.ignore_custom_sections(true);
        Engine::new(&config)
    })
}

/// Lets modules be played by this interpreter, in the whole process.
pub fn install() {
    set_translator(translated);
}

/// Checks and translates a module, and reads what it says of itself.
///
/// # Errors
/// If it is no WebAssembly, imports something, or cannot be started.
pub fn translated(bytes: &[u8]) -> Result<Translated, String> {
    let compiled = Compiled::new(bytes)?;
    let about = compiled.instance(Limits::SIMULATED, &Arc::default())?.about()?.to_owned();
    Ok(Translated { about, code: Box::new(compiled) })
}

/// Memory of a policy, within its own bounds and those of its run.
struct Room {
    limits: StoreLimits,
    bytes: usize,
    together: Arc<AtomicUsize>,
    /// True once the other policies of the run had left too little.
    is_crowded: bool,
}

impl ResourceLimiter for Room {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> Result<bool, LimiterError> {
        if !self.limits.memory_growing(current, desired, maximum)? {
            return Ok(false);
        }
        let more = desired - current;
        // A run is played by one thread; others only read the sum of theirs.
        let together = self.together.fetch_add(more, Ordering::Relaxed) + more;
        if together > MOST_TOGETHER {
            self.together.fetch_sub(more, Ordering::Relaxed);
            self.is_crowded = true;
            return Ok(false);
        }
        self.bytes += more;
        Ok(true)
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> Result<bool, LimiterError> {
        self.limits.table_growing(current, desired, maximum)
    }

    fn instances(&self) -> usize {
        self.limits.instances()
    }

    fn tables(&self) -> usize {
        self.limits.tables()
    }

    fn memories(&self) -> usize {
        self.limits.memories()
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.together.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A module that was checked and translated.
pub struct Compiled(Module);

impl Compiled {
    /// Checks and translates a module.
    ///
    /// # Errors
    /// If it is no WebAssembly, or imports something.
    pub fn new(bytes: &[u8]) -> Result<Compiled, String> {
        if !bytes.starts_with(b"\0asm") {
            return Err("is no WebAssembly module".to_owned());
        }
        let module = Module::new(engine(), bytes).map_err(|e| one_line(&e))?;
        if let Some(import) = module.imports().next() {
            let (from, name) = (import.module(), import.name());
            return Err(format!("imports `{from}.{name}`, expected no imports; {SEE}"));
        }
        Ok(Compiled(module))
    }

    /// Starts it with a memory of its own, which counts in `together`.
    ///
    /// # Errors
    /// If it lacks an export, is of another version, is too large, or traps at its start.
    pub fn instance(&self, fuel: Limits, together: &Arc<AtomicUsize>) -> Result<Instance, String> {
        let limits = StoreLimitsBuilder::new()
            .memory_size(MOST_MEMORY)
            .table_elements(MOST_ELEMENTS)
            .instances(1)
            .memories(1)
            .tables(10)
            .build();
        let room = Room { limits, bytes: 0, together: together.clone(), is_crowded: false };
        // The store takes the room with it, so that its bytes are given back when the policy ends.
        let mut store = Store::new(engine(), room);
        store.limiter(|room| room);
        store.set_fuel(fuel.saved).map_err(|e| one_line(&e))?;
        let linker = Linker::new(engine());
        let instance = linker.instantiate_and_start(&mut store, &self.0);
        // The interpreter says only that there is no room, for both bounds.
        if store.data().is_crowded {
            let most = MOST_TOGETHER >> 20;
            return Err(format!("found no memory left: all policies of a run have {most} MiB"));
        }
        let instance = instance.map_err(|e| told(&e, fuel))?;
        let version = match instance.get_typed_func::<(), i32>(&store, "halfwink_abi") {
            Ok(abi) => abi.call(&mut store, ()).map_err(|e| told(&e, fuel))?,
            Err(_) => return Err(lacks("the function `halfwink_abi() -> i32`")),
        };
        if version != ABI {
            return Err(format!("is of version {version} of the interface, expected {ABI}; {SEE}"));
        }
        let memory = instance.get_memory(&store, "memory").ok_or_else(|| lacks("`memory`"))?;
        let block = instance
            .get_typed_func::<(), i32>(&store, "halfwink_block")
            .map_err(|_| lacks("the function `halfwink_block() -> i32`"))?
            .call(&mut store, ())
            .map_err(|e| told(&e, fuel))? as u32 as usize;
        let decide = instance
            .get_typed_func::<(), ()>(&store, "halfwink_decide")
            .map_err(|_| lacks("the function `halfwink_decide()`"))?;
        let about = instance
            .get_typed_func::<(), i32>(&store, "halfwink_about")
            .map_err(|_| lacks("the function `halfwink_about() -> i32`"))?
            .call(&mut store, ())
            .map_err(|e| told(&e, fuel))? as u32 as usize;
        if memory.data_size(&store).saturating_sub(BYTES) < block {
            return Err(format!("its block at {block} lies outside of its memory; {SEE}"));
        }
        Ok(Instance { store, memory, decide, block, about, fuel })
    }
}

impl Code for Compiled {
    fn start(
        &self,
        _family: &Family,
        limits: Limits,
        together: &Arc<AtomicUsize>,
    ) -> Result<Box<dyn Started>, String> {
        Ok(Box::new(self.instance(limits, together)?))
    }
}

/// A module with a memory of its own.
pub struct Instance {
    store: Store<Room>,
    memory: Memory,
    decide: TypedFunc<(), ()>,
    /// Address of the block.
    block: usize,
    /// Address of what it says of itself.
    about: usize,
    fuel: Limits,
}

impl Instance {
    /// Returns the text in which it says what it is.
    ///
    /// # Errors
    /// If the text does not end within its memory, or is no UTF-8.
    pub fn about(&self) -> Result<&str, String> {
        let data = self.memory.data(&self.store).get(self.about..).unwrap_or_default();
        // A text without an end would be searched through all of its memory.
        let data = &data[..data.len().min(MOST_ABOUT)];
        let end = data.iter().position(|&byte| byte == 0);
        let text = end.and_then(|end| std::str::from_utf8(&data[..end]).ok());
        text.ok_or_else(|| format!("what it says of itself is no text that ends in a zero; {SEE}"))
    }

    fn block_mut(&mut self) -> Block<&mut [u8]> {
        let data = self.memory.data_mut(&mut self.store);
        Block(&mut data[self.block..self.block + BYTES])
    }

    /// Returns its block, as the last call left it.
    fn block(&self) -> Block<&[u8]> {
        Block(&self.memory.data(&self.store)[self.block..self.block + BYTES])
    }
}

impl Instance {
    /// Calls it through a block outside of its memory, as the last call left it but for what the
    /// caller has written: it is copied there and back.
    ///
    /// # Errors
    /// The fault of the module, as the end of a sentence about it.
    pub fn play(&mut self, block: &mut [u8; BYTES]) -> Result<(), String> {
        self.block_mut().0.copy_from_slice(block);
        let done = self.decide();
        block.copy_from_slice(self.block().0);
        done
    }

    fn decide(&mut self) -> Result<(), String> {
        // Unused fuel is saved up, so that a rare long decision costs no more than many short ones.
        let left = self.store.get_fuel().map_err(|e| one_line(&e))?;
        let fuel = (left + self.fuel.per_call).min(self.fuel.saved);
        self.store.set_fuel(fuel).map_err(|e| one_line(&e))?;
        let limits = self.fuel;
        self.decide.call(&mut self.store, ()).map_err(|e| told(&e, limits))
    }
}

impl Started for Instance {
    fn begin(&mut self, parameters: &[f64]) {
        self.block_mut().begin(parameters);
    }

    fn call(&mut self, now: u64, event: u64, fields: &[u64]) -> Result<(), String> {
        self.block_mut().event(now, event, fields);
        self.decide()
    }

    fn timer(&self) -> u64 {
        self.block().timer()
    }

    fn count(&self) -> u64 {
        self.block().count()
    }

    fn action(&self, n: usize) -> (u64, Fields) {
        self.block().action(n)
    }
}

fn lacks(what: &str) -> String {
    format!("exports no {what}; {SEE}").replace("no the", "no")
}

/// Describes a failed call for the author of the module.
fn told(error: &wasmi::Error, fuel: Limits) -> String {
    match error.as_trap_code() {
        Some(TrapCode::OutOfFuel) => {
            let Limits { per_call, saved } = fuel;
            format!("used up its fuel ({per_call} a call, {saved} saved up)")
        }
        Some(TrapCode::UnreachableCodeReached) => "trapped: it reached `unreachable`".to_owned(),
        Some(TrapCode::StackOverflow) => "trapped: it calls itself too deeply".to_owned(),
        Some(trap) => format!("trapped: {trap}"),
        None => one_line(error),
    }
}

fn one_line(error: &wasmi::Error) -> String {
    error.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}
