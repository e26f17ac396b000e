// Drives `term2 acp` with the v1 client of an official SDK, and prints one line of JSON that says what the
// client saw. What is right is for the Python test to say; this file asserts nothing.
//
//   node drive_v1.mjs <sdk package> <plan as JSON>
//
// The plan: {command: [...], env: {...}, cwd, notes, buffer}. The client offers its files: `buffer` is what
// the file `notes` has in the editor, unsaved. SDK 1.4.0 is driven by its class ClientSideConnection, as most
// clients of its time are, SDK 2.4.0 by the client(...) that replaced it.

import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";

const [sdkName, planText] = process.argv.slice(2);
const sdk = await import(sdkName);
const plan = JSON.parse(planText);

const updates = [];
const asks = [];
const reads = [];
const writes = [];
const buffers = new Map([[plan.notes, plan.buffer]]);
let choice = "allow_once";
let onUpdate = () => {};

// -- the editor's side -----------------------------------------------------------------------------

const editor = {
  sessionUpdate({ update }) {
    updates.push(update);
    onUpdate(update);
  },
  /** How the person answers: by the kind of the option, as an editor's buttons do. */
  requestPermission(params) {
    asks.push({ ...params, choice });
    const option = params.options.find((candidate) => candidate.kind === choice);
    return { outcome: { outcome: "selected", optionId: option.optionId } };
  },
  readTextFile(params) {
    reads.push(params);
    if (!buffers.has(params.path)) {
      throw sdk.RequestError.resourceNotFound(params.path);
    }
    return { content: buffers.get(params.path) };
  },
  writeTextFile(params) {
    writes.push(params);
    buffers.set(params.path, params.content);
    return {};
  },
};

// -- the two vintages ------------------------------------------------------------------------------

const NAMES = {
  initialize: "initialize",
  authenticate: "authenticate",
  "session/new": "newSession",
  "session/load": "loadSession",
  "session/resume": "resumeSession",
  "session/list": "listSessions",
  "session/close": "closeSession",
  "session/delete": "deleteSession",
  "session/set_mode": "setSessionMode",
  "session/set_config_option": "setSessionConfigOption",
  "session/prompt": "prompt",
};

function byClass(stream) {
  const connection = new sdk.ClientSideConnection(() => editor, stream);
  return {
    request: (method, params) => connection[NAMES[method]](params),
    cancel: (params) => connection.cancel(params),
  };
}

function byApp(stream) {
  const { client: mine, agent: theirs } = sdk.methods;
  const { agent } = sdk
    .client({ name: "term2-driver" })
    .onNotification(mine.session.update, ({ params }) => editor.sessionUpdate(params))
    .onRequest(mine.session.requestPermission, ({ params }) => editor.requestPermission(params))
    .onRequest(mine.fs.readTextFile, ({ params }) => editor.readTextFile(params))
    .onRequest(mine.fs.writeTextFile, ({ params }) => editor.writeTextFile(params))
    .connect(stream);
  return {
    request: (method, params) => agent.request(method, params),
    cancel: (params) => agent.notify(theirs.session.cancel, params),
  };
}

const [program, ...args] = plan.command;
const child = spawn(program, args, { env: plan.env, cwd: plan.cwd, stdio: ["pipe", "pipe", "inherit"] });
const exited = new Promise((resolve) => child.once("exit", (code, signal) => resolve(code ?? signal)));
const stream = sdk.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
const agent = sdk.ClientSideConnection ? byClass(stream) : byApp(stream);

// -- one turn --------------------------------------------------------------------------------------

/** Tool calls as an editor has them: each update goes over what was there. */
function folded(seen) {
  const calls = {};
  for (const update of seen) {
    if (update.sessionUpdate === "tool_call" || update.sessionUpdate === "tool_call_update") {
      const { sessionUpdate, ...members } = update;
      calls[update.toolCallId] = { ...calls[update.toolCallId], ...members };
    }
  }
  return Object.values(calls);
}

function joined(seen, kind) {
  const chunks = seen.filter((update) => update.sessionUpdate === kind);
  return chunks.map((update) => update.content.text).join("");
}

function story(seen) {
  return {
    kinds: seen.map((update) => update.sessionUpdate),
    user: joined(seen, "user_message_chunk"),
    text: joined(seen, "agent_message_chunk"),
    thoughts: joined(seen, "agent_thought_chunk"),
    calls: folded(seen),
    plans: seen.filter((update) => update.sessionUpdate === "plan").map((update) => update.entries),
    usage: seen.filter((update) => update.sessionUpdate === "usage_update"),
  };
}

/** What was told so far. Handlers run a few turns of the event loop after the line came. */
async function told() {
  for (let turn = 0; turn < 5; turn += 1) {
    await new Promise((resolve) => setImmediate(resolve));
  }
  return updates.splice(0);
}

async function turn(sessionId, text) {
  await told();
  const answer = await agent.request("session/prompt", { sessionId, prompt: [{ type: "text", text }] });
  return { stopReason: answer.stopReason, ...story(await told()) };
}

// -- the scenario ----------------------------------------------------------------------------------

async function scenario() {
  const initialized = await agent.request("initialize", {
    protocolVersion: sdk.PROTOCOL_VERSION,
    clientInfo: { name: "term2-driver", version: "1" },
    clientCapabilities: {
      fs: { readTextFile: true, writeTextFile: true },
      terminal: true,
      session: { configOptions: { boolean: {} } },
      _meta: { terminal_output: true },
    },
  });
  const authenticated = await agent.request("authenticate", { methodId: "none" });
  const place = { cwd: plan.cwd, mcpServers: [] };
  const made = await agent.request("session/new", place);
  const { sessionId } = made;
  const open = { ...place, sessionId };

  const work = await turn(sessionId, "work");
  const changed = await turn(sessionId, "change one two");
  const ran = await turn(sessionId, "run");
  const allowed = await turn(sessionId, "outside");

  const asking = await agent.request("session/set_mode", { sessionId, modeId: "ask" });
  const toldOfMode = await told();
  choice = "reject_once";
  const rejected = await turn(sessionId, "change two three");
  choice = "allow_once";
  const approved = await turn(sessionId, "change two four");
  const option = (configId, value) =>
    agent.request("session/set_config_option", { sessionId, configId, value });
  const standard = await option("mode", "standard");
  const model = await option("model", plan.model);

  onUpdate = (update) => {
    if (update.sessionUpdate === "agent_message_chunk") {
      onUpdate = () => {};
      agent.cancel({ sessionId });
    }
  };
  const cancelled = await turn(sessionId, "wait");

  const listed = await agent.request("session/list", { cwd: plan.cwd });
  const elsewhere = await agent.request("session/list", { cwd: "/" });
  const closed = await agent.request("session/close", { sessionId });
  await told();
  const loaded = await agent.request("session/load", open);
  const history = story(await told());
  await agent.request("session/close", { sessionId });
  await told();
  const resumed = await agent.request("session/resume", open);
  const silence = story(await told());
  const goesOn = await turn(sessionId, "hi");
  const deleted = await agent.request("session/delete", { sessionId });
  const afterwards = await agent.request("session/list", {});
  return {
    initialized, authenticated, made, work, changed, ran, allowed, asking, toldOfMode, rejected, approved,
    standard, model, cancelled, listed, elsewhere, closed, loaded, history, resumed, silence, goesOn, deleted,
    afterwards,
  };
}

const seen = await scenario();
child.stdin.end();
const exit = await exited;
console.log(JSON.stringify({ ...seen, asks, reads, writes, buffer: buffers.get(plan.notes), exit }));
