//! The machine: scripts by digest, libraries by name, and the protected calls that enter Lua.

use crate::host::{Failure, Host, Protocol};
use crate::library::{Function, Library};
use crate::lua::{Kind, Stack, native, push_error, watch};
use crate::program::{Digest, Known, Mixed, Program, Runs};
use crate::reply::{self, Output};
use crate::sandbox::{self, Tables};
use crate::shebang::{self, Flags};
use crate::state::{INSTRUCTIONS, KILLED, Mode, State, allocate};
use mlua_sys as ffi;
use std::collections::{BTreeMap, HashMap};
use std::ffi::{CStr, c_int};
use std::hash::BuildHasherDefault;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Settings of a machine.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Bytes that Lua may allocate. A script that needs more fails.
    pub memory_max: usize,
    /// Version that `redis.REDIS_VERSION` names.
    pub version: String,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { memory_max: 512 << 20, version: "7.0.15".to_owned() }
    }
}

/// The code of all compiled scripts may have 1 / `COMPILED_SHARE` of the bound of Lua's memory. Compiled, it takes four times as much.
const COMPILED_SHARE: usize = 32;
/// Bytes that count for a compiled script beside its code.
const SCRIPT_OVERHEAD: usize = 256;

/// A script in the cache.
struct Script {
    code: Vec<u8>,
    flags: Option<Flags>,
    runs: Runs,
    /// Number of the function in the registry, and the generation of the Lua state that it belongs to.
    compiled: Option<(c_int, u64)>,
}

/// A library, and for each of its functions the number in the registry and the latest runs.
struct Loaded {
    library: Library,
    kept: Vec<c_int>,
    runs: Vec<Runs>,
}

/// Numbers in the registry of the native functions by which the machine enters Lua. They are made in advance: making one may run out of
/// memory, outside of a protected call.
#[derive(Clone, Copy)]
struct Entries {
    run: c_int,
    handler: c_int,
    compile: c_int,
    collect: c_int,
    set_index: c_int,
}

/// A script, function or library to run, as the argument of the native function `run`.
struct Job<'a> {
    function: c_int,
    mode: Mode,
    keys: &'a [&'a [u8]],
    arguments: &'a [&'a [u8]],
    tables: Tables,
    handler: c_int,
    output: Output<'a>,
    /// Name in errors: the digest or the function.
    name: &'a [u8],
    failure: Option<Failure>,
}

/// By the name of each function, in lower case: the name of its library, and the function's position there.
type Functions = HashMap<Vec<u8>, (Vec<u8>, usize)>;

/// Library of a function, and the function's position there. Names of functions ignore case.
fn found<'f>(functions: &'f Functions, name: &[u8]) -> Option<&'f (Vec<u8>, usize)> {
    functions.get(name).or_else(|| functions.get(&name.to_ascii_lowercase()))
}

/// A Lua machine with Redis's scripting semantics, for one thread.
pub struct Machine {
    settings: Settings,
    state: Box<State>,
    lua: Stack,
    tables: Tables,
    entries: Entries,
    /// Number of the Lua state. Functions that were compiled in an older one are compiled again.
    generation: u64,
    /// Bytes of code whose compiled scripts the Lua state holds, each with [`SCRIPT_OVERHEAD`].
    compiled_bytes: usize,
    /// Fewest bytes in use after a run, since garbage was last collected between two runs.
    kept_bytes: usize,
    /// Bytes of the code of all scripts.
    script_bytes: usize,
    scripts: HashMap<Digest, Script, BuildHasherDefault<Mixed>>,
    libraries: BTreeMap<Vec<u8>, Loaded>,
    functions: Functions,
}

// SAFETY: nothing in a Lua state or in its `State` belongs to a thread, and the machine has the only pointers to them while no script runs.
unsafe impl Send for Machine {}

impl Drop for Machine {
    fn drop(&mut self) {
        close(self.lua);
    }
}

fn close(lua: Stack) {
    // SAFETY: nothing runs in the machine, whose owner gives it up; its `State` is still alive.
    unsafe { ffi::lua_close(lua.raw()) };
}

/// Makes a Lua state.
fn open(settings: &Settings) -> (Box<State>, Stack, (Tables, Entries)) {
    struct Start<'a>(&'a str, Option<(Tables, Entries)>);
    fn start(lua: Stack) -> c_int {
        // SAFETY: `open` passes a `Start` that outlives the call.
        let start = unsafe { &mut *lua.light(1).cast::<Start>() };
        lua.set_top(0);
        let tables = sandbox::build(lua, start.0);
        let kept = |function: crate::lua::Native| {
            lua.push_native(function, 0);
            lua.keep()
        };
        let entries = Entries {
            run: kept(native(enter)),
            handler: kept(native(handler)),
            compile: kept(native(compile)),
            collect: kept(native(collect)),
            set_index: kept(native(set_index)),
        };
        start.1 = Some((tables, entries));
        0
    }
    unsafe extern "C-unwind" fn unprotected(_: *mut ffi::lua_State) -> c_int {
        panic!("a Lua error outside of a protected call");
    }
    // Lua's libraries need this much.
    let state = Box::new(State::new(settings.memory_max.max(1 << 20)));
    // SAFETY: the allocator gets its `State`, which is boxed and outlives the machine.
    let lua = unsafe {
        let lua = ffi::lua_newstate(allocate, (&raw const *state).cast_mut().cast());
        assert!(!lua.is_null(), "memory for a Lua state");
        ffi::lua_atpanic(lua, unprotected);
        Stack::of(lua)
    };
    state.belongs_to(lua.raw());
    let mut arguments = Start(&settings.version, None);
    lua.push_native(native(start), 0);
    lua.push_light((&raw mut arguments).cast());
    let done = lua.protected(1, 0, 0);
    assert!(done.is_ok(), "the libraries load: {}", String::from_utf8_lossy(lua.bytes(-1).unwrap_or(b"")));
    watch(lua, INSTRUCTIONS);
    let tables = arguments.1.expect("the start has run");
    (state, lua, tables)
}

/// Runs a full collection.
fn collect(lua: Stack) -> c_int {
    lua.collect();
    0
}

/// Sets the field `__index` of a table to another.
fn set_index(lua: Stack) -> c_int {
    lua.set_field(1, b"__index");
    0
}

/// Argument of `compile`: the code, the number of its globals in the registry, its name, and the result.
struct Compile<'a>(&'a [u8], c_int, &'a CStr, Result<c_int, Vec<u8>>);

fn compile(lua: Stack) -> c_int {
    // SAFETY: `Machine::compile_as` passes a `Compile` that outlives the call.
    let compile = unsafe { &mut *lua.light(1).cast::<Compile>() };
    if lua.load(compile.0, compile.2) {
        lua.raw_get_at(crate::lua::REGISTRY, compile.1);
        lua.set_environment(-2);
        compile.3 = Ok(lua.keep());
    } else if let (Err(text), Some(error)) = (&mut compile.3, lua.bytes(-1)) {
        text.clear();
        text.extend_from_slice(error);
    }
    0
}

/// Error handler of scripts: makes the error a table, with the source and line where it happened.
fn handler(lua: Stack) -> c_int {
    lua.set_top(1);
    if lua.kind(1) != Kind::Table {
        match lua.kind(1) {
            Kind::String | Kind::Number => push_error(lua, lua.bytes(1).unwrap_or(b"")),
            Kind::Nil => push_error(lua, b"nil"),
            Kind::Boolean => push_error(lua, if lua.boolean(1) { b"true" } else { b"false" }),
            _ => {
                let (kind, address) = (lua.type_name(1), lua.pointer(1));
                lua.push_text(format_args!("ERR {kind}: {address:p}"));
                lua.new_table(0, 1);
                lua.insert(-2);
                lua.set_field(-2, b"err");
            }
        }
        lua.replace(1);
    }
    if let Some((source, line)) = lua.culprit() {
        lua.push_bytes(source.to_bytes());
        lua.set_field(1, b"source");
        lua.push_number(f64::from(line));
        lua.set_field(1, b"line");
    }
    1
}

/// Pushes texts as an array.
fn push_array(lua: Stack, texts: &[&[u8]]) {
    lua.new_table(texts.len(), 0);
    for (n, text) in texts.iter().enumerate() {
        lua.push_bytes(text);
        lua.raw_set_at(-2, n as c_int + 1);
    }
}

/// Sets a field of the table on top to an array of texts.
fn set_array(lua: Stack, name: &[u8], texts: &[&[u8]]) {
    lua.push_bytes(name);
    push_array(lua, texts);
    lua.raw_set(-3);
}

/// Runs a job inside a protected call.
fn enter(lua: Stack) -> c_int {
    // SAFETY: `Machine::run` passes a `Job` that outlives the call and is used by nothing else meanwhile.
    let job = unsafe { &mut *lua.light(1).cast::<Job>() };
    lua.set_top(0);
    let registry = crate::lua::REGISTRY;
    lua.raw_get_at(registry, if job.mode == Mode::Script { job.tables.script } else { job.tables.function });
    lua.replace(crate::lua::GLOBALS);
    lua.raw_get_at(registry, job.handler);
    lua.raw_get_at(registry, job.function);
    let result = match job.mode {
        Mode::Script => {
            lua.raw_get_at(registry, job.tables.script_behind);
            set_array(lua, b"KEYS", job.keys);
            set_array(lua, b"ARGV", job.arguments);
            lua.pop(1);
            lua.protected(0, 1, 1)
        }
        Mode::Function => {
            push_array(lua, job.keys);
            push_array(lua, job.arguments);
            lua.protected(2, 1, 1)
        }
        Mode::Loading | Mode::Idle => {
            // Loading has no handler: its errors do not name lines.
            lua.remove(1);
            lua.protected(0, 1, 0)
        }
    };
    if result.is_err() {
        failed(lua, job);
        return 0;
    }
    if job.mode == Mode::Loading {
        return 0;
    }
    let start = job.output.out.len();
    if !reply::write(lua, &mut job.output, 0) {
        job.output.out.truncate(start);
        job.failure = Some(Failure::new("ERR the reply is too large"));
    }
    0
}

/// Stores the error on top as the job's failure.
fn failed(lua: Stack, job: &mut Job) {
    // The failure belongs to the job: this frame may be left by an error of memory.
    let failure = job.failure.insert(Failure::new(""));
    if lua.kind(-1) == Kind::Table {
        lua.field(-1, b"err");
        failure_text(lua, failure);
        lua.field(-2, b"ignore_error_stats_update");
        failure.counted = lua.boolean(-1);
        lua.pop(2);
        lua.field(-1, b"line");
        lua.field(-2, b"source");
        if job.mode != Mode::Loading && lua.is_number(-2) && lua.kind(-1) == Kind::String {
            let text = &mut failure.message;
            text.extend_from_slice(b" script: ");
            text.extend_from_slice(job.name);
            text.extend_from_slice(b", on ");
            text.extend_from_slice(lua.bytes(-1).unwrap_or(b""));
            text.push(b':');
            text.extend_from_slice(crate::number::integer(lua.number(-2) as i64).bytes());
            text.push(b'.');
        }
    } else if job.mode == Mode::Loading {
        failure.message.extend_from_slice(b"ERR ");
        failure_text(lua, failure);
    } else {
        failure.message.extend_from_slice(b"ERR Error running script ");
        failure.message.extend_from_slice(job.name);
        failure.message.extend_from_slice(b", ");
        failure_text(lua, failure);
    }
}

/// Appends the text on top to a failure. A number is printed here and not by Lua, which could run out of memory and lose the failure.
fn failure_text(lua: Stack, failure: &mut Failure) {
    match lua.kind(-1) {
        Kind::String => failure.message.extend_from_slice(lua.bytes(-1).unwrap_or(b"")),
        Kind::Number => failure.message.extend_from_slice(crate::number::general(lua.number(-1), 14).bytes()),
        _ => failure.message.extend_from_slice(b"execution failure"),
    }
}

impl Machine {
    /// An empty machine.
    pub fn new(settings: Settings) -> Machine {
        let (state, lua, (tables, entries)) = open(&settings);
        let (scripts, libraries, functions) = (HashMap::default(), BTreeMap::new(), HashMap::new());
        Machine {
            settings,
            state,
            lua,
            tables,
            entries,
            generation: 0,
            compiled_bytes: 0,
            kept_bytes: 0,
            script_bytes: 0,
            scripts,
            libraries,
            functions,
        }
    }

    /// Bytes that Lua has allocated.
    pub fn memory(&self) -> usize {
        self.state.used()
    }

    /// Number of scripts in the cache, and the bytes of their code.
    pub fn scripts(&self) -> (usize, usize) {
        (self.scripts.len(), self.script_bytes)
    }

    /// Compiles a script, adds it to the cache and returns its digest. The text of a failure begins with a code.
    pub fn load_script(&mut self, code: &[u8]) -> Result<Digest, Failure> {
        let digest = Digest::of(code);
        if !self.scripts.contains_key(&digest) {
            let (flags, _) = shebang::script(code).map_err(Failure::new)?;
            let compiled = self.compile(code)?;
            let (compiled, runs) = (Some((compiled, self.generation)), Runs::default());
            self.script_bytes += code.len();
            self.scripts.insert(digest, Script { code: code.to_vec(), flags, runs, compiled });
        }
        Ok(digest)
    }

    /// Facts about a program; `None`: it is not there.
    pub fn known(&self, program: &Program) -> Option<Known> {
        match program {
            Program::Script(digest) => {
                let script = self.scripts.get(digest)?;
                Some(Known { flags: script.flags, is_short: script.runs.are_short() })
            }
            Program::Function(name) => {
                let (library, position) = found(&self.functions, name)?;
                let Loaded { library, runs, .. } = self.libraries.get(library)?;
                let function = library.functions.get(*position)?;
                Some(Known { flags: Some(function.flags), is_short: runs.get(*position).is_some_and(Runs::are_short) })
            }
        }
    }

    /// Notes that the last run of a program was a long one.
    pub fn took_long(&mut self, program: &Program) {
        let runs = match program {
            Program::Script(digest) => self.scripts.get_mut(digest).map(|script| &mut script.runs),
            Program::Function(name) => {
                found(&self.functions, name).and_then(|(library, position)| self.libraries.get_mut(library)?.runs.get_mut(*position))
            }
        };
        runs.into_iter().for_each(Runs::restart);
    }

    /// Whether the cache has a script.
    pub fn has_script(&self, digest: &Digest) -> bool {
        self.scripts.contains_key(digest)
    }

    /// Flags of a script in the cache. `None`: it is not there; `Some(None)`: it states no flags.
    pub fn script_flags(&self, digest: &Digest) -> Option<Option<Flags>> {
        self.scripts.get(digest).map(|script| script.flags)
    }

    /// Flags that the first line of a script states, without compiling it.
    pub fn flags_of(code: &[u8]) -> Result<Option<Flags>, Failure> {
        shebang::script(code).map(|(flags, _)| flags).map_err(Failure::new)
    }

    /// Code of a script in the cache.
    pub fn script_code(&self, digest: &Digest) -> Option<&[u8]> {
        self.scripts.get(digest).map(|script| &script.code[..])
    }

    /// Empties the cache of scripts, and gives the settings of their `cjson` the default values.
    pub fn flush_scripts(&mut self) {
        crate::json::reset(self.lua, self.tables.script_json);
        self.drop_compiled();
        (self.scripts, self.script_bytes) = (HashMap::default(), 0);
    }

    /// Drops the compiled forms of scripts, which are compiled again when they are run.
    fn drop_compiled(&mut self) {
        let generation = self.generation;
        for script in self.scripts.values_mut() {
            if let Some((kept, _)) = script.compiled.take().filter(|(_, compiled)| *compiled == generation) {
                self.lua.drop_kept(kept);
            }
        }
        self.compiled_bytes = 0;
        self.collect();
    }

    fn collect(&mut self) {
        // The collection cannot fail, since scripts have no finalizers; `set_top` drops a result in any case.
        self.lua.raw_get_at(crate::lua::REGISTRY, self.entries.collect);
        let _ = self.lua.protected(0, 0, 0);
        self.lua.set_top(0);
    }

    /// Compiles a script; its number in the registry.
    fn compile(&mut self, code: &[u8]) -> Result<c_int, Failure> {
        let (_, code) = shebang::script(code).map_err(Failure::new)?;
        let bytes = code.len() + SCRIPT_OVERHEAD;
        if self.compiled_bytes + bytes > self.state.memory_max() / COMPILED_SHARE {
            self.drop_compiled();
        }
        let compiled = self.compile_as(code, self.tables.script, c"@user_script");
        self.compiled_bytes += bytes;
        compiled.map_err(|error| Failure::new([&b"ERR Error compiling script (new function): "[..], &error].concat()))
    }

    /// Compiles code with globals; its number in the registry, or the error's text.
    fn compile_as(&mut self, code: &[u8], globals: c_int, name: &CStr) -> Result<c_int, Vec<u8>> {
        let mut job = Compile(code, globals, name, Err(b"not enough memory".to_vec()));
        self.lua.raw_get_at(crate::lua::REGISTRY, self.entries.compile);
        self.lua.push_light((&raw mut job).cast());
        let _ = self.lua.protected(1, 0, 0);
        self.lua.set_top(0);
        if job.3.is_err() {
            self.renew_if_refused();
        }
        job.3
    }

    /// Runs a script of the cache and appends its reply to `out` in the client's protocol. `None` if the cache has no such script.
    pub fn eval(
        &mut self,
        digest: &Digest,
        keys: &[&[u8]],
        arguments: &[&[u8]],
        host: &mut dyn Host,
        client: Protocol,
        out: &mut Vec<u8>,
    ) -> Option<Result<(), Failure>> {
        let script = self.scripts.get_mut(digest)?;
        script.runs.begin();
        let function = match script.compiled.filter(|(_, generation)| *generation == self.generation) {
            Some((function, _)) => function,
            None => {
                let code = script.code.clone();
                let function = match self.compile(&code) {
                    Ok(function) => function,
                    Err(failure) => return Some(Err(failure)),
                };
                self.scripts.get_mut(digest)?.compiled = Some((function, self.generation));
                function
            }
        };
        let (mode, name, tables, handler) = (Mode::Script, digest.bytes(), self.tables, self.entries.handler);
        let output = Output::new(out, client);
        Some(self.run(Job { function, mode, keys, arguments, tables, handler, output, name, failure: None }, host))
    }

    /// Runs a function of a library and appends its reply to `out` in the client's protocol. `None` if there is no such function.
    pub fn call(
        &mut self,
        name: &[u8],
        keys: &[&[u8]],
        arguments: &[&[u8]],
        host: &mut dyn Host,
        client: Protocol,
        out: &mut Vec<u8>,
    ) -> Option<Result<(), Failure>> {
        let (library, position) = found(&self.functions, name)?;
        let loaded = self.libraries.get_mut(library)?;
        let function = *loaded.kept.get(*position)?;
        // Errors have the name as it was registered.
        let name = &loaded.library.functions.get(*position)?.name.clone();
        loaded.runs.get_mut(*position)?.begin();
        let (mode, tables, handler) = (Mode::Function, self.tables, self.entries.handler);
        let output = Output::new(out, client);
        Some(self.run(Job { function, mode, keys, arguments, tables, handler, output, name, failure: None }, host))
    }

    fn run(&mut self, mut job: Job, host: &mut dyn Host) -> Result<(), Failure> {
        let (state, lua, entry) = (&*self.state, self.lua, self.entries.run);
        let start = job.output.out.len();
        state.protocol.set(Protocol::Resp2);
        state.begin();
        let (result, is_killed) = state.with_host(host, || {
            state.mode.set(job.mode);
            lua.raw_get_at(crate::lua::REGISTRY, entry);
            lua.push_light((&raw mut job).cast());
            let result = catch_unwind(AssertUnwindSafe(|| lua.protected(1, 0, 0)));
            if state.killed.get() {
                watch(lua, INSTRUCTIONS);
            }
            (result, state.killed.get())
        });
        match result {
            Ok(Ok(())) => {}
            Ok(Err(_)) => {
                // The script has ended: it was killed, or memory was refused, while its reply was written or its error was read.
                job.output.out.truncate(start);
                let why = if is_killed { KILLED } else { "Error running script: not enough memory" };
                job.failure = Some(Failure::new(format!("ERR {why}")));
            }
            Err(panic) => {
                self.abandon();
                resume_unwind(panic);
            }
        }
        lua.set_top(0);
        let failure = job.failure.take();
        state.empty_buffers();
        self.renew_if_refused();
        self.tidy();
        match failure {
            None => Ok(()),
            Some(failure) => Err(failure),
        }
    }

    /// Collects garbage after a run if much may be there, so that the process gets the memory back. Values that libraries keep do not count
    /// again and again: after a collection, only growth leads to the next one.
    fn tidy(&mut self) {
        let (used, bound) = (self.state.used(), self.state.memory_max());
        self.kept_bytes = self.kept_bytes.min(used);
        if used > (bound / 4).max(self.kept_bytes + bound / 8) {
            self.collect();
            self.kept_bytes = self.state.used();
        }
    }

    /// Replaces a Lua state that has refused memory: the values that filled it may still be alive, in a library or until the collector
    /// finds them.
    fn renew_if_refused(&mut self) {
        if self.state.refused() {
            let (state, lua, tables) = open(&self.settings);
            close(std::mem::replace(&mut self.lua, lua));
            self.state = state;
            self.renewed(tables);
        }
    }

    /// Replaces a Lua state that a panic has left in the middle of a call. The old one cannot be closed, so its memory is lost.
    fn abandon(&mut self) {
        let (state, lua, tables) = open(&self.settings);
        self.lua = lua;
        std::mem::forget(std::mem::replace(&mut self.state, state));
        self.renewed(tables);
    }

    /// Loads the libraries into a new Lua state. Scripts are compiled there when they are next run.
    fn renewed(&mut self, (tables, entries): (Tables, Entries)) {
        (self.tables, self.entries) = (tables, entries);
        self.generation += 1;
        self.compiled_bytes = 0;
        for (name, mut loaded) in std::mem::take(&mut self.libraries) {
            match self.registered(&loaded.library.code, &mut Nobody) {
                Ok((functions, kept)) if functions == loaded.library.functions => loaded.kept = kept,
                // A library that now registers other functions keeps its old list, and calls fail as if its functions did not exist.
                _ => loaded.kept = Vec::new(),
            }
            self.libraries.insert(name, loaded);
        }
    }

    /// Runs the code of a library; returns the functions that it registers, and their numbers in the registry.
    fn registered(&mut self, code: &[u8], host: &mut dyn Host) -> Result<(Vec<Function>, Vec<c_int>), Failure> {
        let (_, body) = shebang::library(code).map_err(Failure::new)?;
        let compiled = self.compile_as(body, self.tables.function, c"@user_function");
        let function = compiled.map_err(|error| Failure::new([&b"ERR Error compiling function: "[..], &error].concat()))?;
        self.state.registered.get().clear();
        self.switch(self.tables.loading_behind);
        let mut out = Vec::new();
        let (mode, tables, handler) = (Mode::Loading, self.tables, self.entries.handler);
        let output = Output::new(&mut out, Protocol::Resp2);
        let generation = self.generation;
        let job = Job { function, mode, keys: &[], arguments: &[], tables, output, handler, name: b"", failure: None };
        let result = self.run(job, &mut Loading(host));
        if generation == self.generation {
            self.switch(self.tables.function_behind);
            self.lua.drop_kept(function);
        }
        let registered = std::mem::take(self.state.registered.get());
        if let Err(failure) = result {
            registered.iter().filter(|_| generation == self.generation).for_each(|registered| self.lua.drop_kept(registered.kept));
            let message = [&b"ERR Error registering functions: "[..], &failure.message].concat();
            return Err(Failure::new(message));
        }
        if registered.is_empty() {
            return Err(Failure::new("ERR No functions registered"));
        }
        Ok(registered.into_iter().map(|registered| (registered.function, registered.kept)).unzip())
    }

    /// Sets where functions look up their globals.
    fn switch(&mut self, behind: c_int) {
        let registry = crate::lua::REGISTRY;
        self.lua.raw_get_at(registry, self.entries.set_index);
        self.lua.raw_get_at(registry, self.tables.switch);
        self.lua.raw_get_at(registry, behind);
        let _ = self.lua.protected(2, 0, 0);
        self.lua.set_top(0);
    }

    /// Loads a library and returns its name. With `replace`, a library of this name is replaced; without, it is an error.
    pub fn load_library(&mut self, code: &[u8], replace: bool, host: &mut dyn Host) -> Result<Vec<u8>, Failure> {
        let (name, _) = shebang::library(code).map_err(Failure::new)?;
        if !replace && self.libraries.contains_key(&name) {
            return Err(Failure::new([&b"ERR Library '"[..], &name, b"' already exists"].concat()));
        }
        let (functions, kept) = self.registered(code, host)?;
        let taken =
            |function: &&Function| self.functions.get(&function.name.to_ascii_lowercase()).is_some_and(|(library, _)| *library != name);
        if let Some(function) = functions.iter().find(taken) {
            let message = [&b"ERR Function "[..], &function.name, b" already exists"].concat();
            kept.into_iter().for_each(|kept| self.lua.drop_kept(kept));
            return Err(Failure::new(message));
        }
        self.delete_library(&name);
        for (position, function) in functions.iter().enumerate() {
            self.functions.entry(function.name.to_ascii_lowercase()).or_insert_with(|| (name.clone(), position));
        }
        let runs = functions.iter().map(|_| Runs::default()).collect();
        let library = Library { name: name.clone(), code: code.to_vec(), functions };
        self.libraries.insert(name.clone(), Loaded { library, kept, runs });
        Ok(name)
    }

    /// Deletes a library; false if there is none.
    pub fn delete_library(&mut self, name: &[u8]) -> bool {
        let Some(loaded) = self.libraries.remove(name) else { return false };
        loaded.library.functions.iter().for_each(|function| drop(self.functions.remove(&function.name.to_ascii_lowercase())));
        loaded.kept.into_iter().for_each(|kept| self.lua.drop_kept(kept));
        true
    }

    /// Deletes all libraries.
    pub fn flush_libraries(&mut self) {
        let names: Vec<_> = self.libraries.keys().cloned().collect();
        for name in names {
            self.delete_library(&name);
        }
        self.collect();
    }

    /// Libraries in the order of their names.
    pub fn libraries(&self) -> impl Iterator<Item = &Library> {
        self.libraries.values().map(|loaded| &loaded.library)
    }

    /// A function and its library.
    pub fn function(&self, name: &[u8]) -> Option<(&Library, &Function)> {
        let (library, position) = found(&self.functions, name)?;
        let library = &self.libraries.get(library)?.library;
        Some((library, library.functions.get(*position)?))
    }
}

/// Host of a loading library: log, interrupt and clock of another host, and no commands.
struct Loading<'a>(&'a mut dyn Host);

impl Host for Loading<'_> {
    fn call(&mut self, _: &[&[u8]], _: Protocol, reply: &mut Vec<u8>) {
        reply.extend_from_slice(b"-ERR redis.call/pcall can only be called inside a script invocation\r\n");
    }

    fn may_call(&mut self, _: &[&[u8]]) -> Option<bool> {
        None
    }

    fn log(&mut self, level: u8, line: &[u8]) {
        self.0.log(level, line);
    }

    fn set_replication(&mut self, _: u8) {}

    fn interrupt(&mut self) -> crate::host::Verdict {
        self.0.interrupt()
    }

    fn clock(&mut self) -> f64 {
        self.0.clock()
    }

    fn count_error(&mut self, _: &[u8]) {}
}

/// Host of libraries that are loaded again, into a new Lua state: no commands, no log, and no limit of time, since each library has kept to
/// the limit before.
struct Nobody;

impl Host for Nobody {
    fn call(&mut self, _: &[&[u8]], _: Protocol, _: &mut Vec<u8>) {}

    fn may_call(&mut self, _: &[&[u8]]) -> Option<bool> {
        None
    }

    fn log(&mut self, _: u8, _: &[u8]) {}

    fn set_replication(&mut self, _: u8) {}

    fn interrupt(&mut self) -> crate::host::Verdict {
        crate::host::Verdict::Continue
    }

    fn clock(&mut self) -> f64 {
        0.0
    }

    fn count_error(&mut self, _: &[u8]) {}
}
