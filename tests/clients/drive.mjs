// Drives `term2 acp` with the v2 client of an official SDK, and prints one line of JSON that says what
// the client saw. What is right is for the Python test to say; this file asserts nothing.
//
//   node drive.mjs <sdk package> <plans as JSON>
//
// Each plan is held with an agent and a client of its own, one after the other:
// {scenario: "live", command: [...], env: {...}, cwd: "/workspace", frames: "/file for the recorded lines", ...}.
// One with `takesUp: true` gets the session of the first. A line has what was seen of each, in a list.
// Both vintages are driven by the same calls: their v2 clients share this part of their interface.

import { spawn } from "node:child_process";
import { openSync, writeSync } from "node:fs";
import { Readable } from "node:stream";

const [sdkName, plansText] = process.argv.slice(2);
const sdk = await import(`${sdkName}/experimental/v2`);
const { agent: agentMethods, client: clientMethods } = sdk.methods;

// Of the plan that is held now.
let plan;
let asks;
let stray;
let policy;

// -- the connection --------------------------------------------------------------------------------

/** Appends every whole line that passes, with its direction, to the plan's file of frames. */
function recorder(file, direction) {
  const decoder = new TextDecoder();
  let rest = "";
  return (chunk) => {
    rest += decoder.decode(chunk, { stream: true });
    const lines = rest.split("\n");
    rest = lines.pop();
    for (const line of lines) {
      writeSync(file, JSON.stringify([direction, line]) + "\n");
    }
  };
}

function startAgent() {
  const [program, ...args] = plan.command;
  const child = spawn(program, args, { env: plan.env, cwd: plan.cwd, stdio: ["pipe", "pipe", "inherit"] });
  const exited = new Promise((resolve) => child.once("exit", (code, signal) => resolve(code ?? signal)));
  const file = openSync(plan.frames, "a");
  const sent = recorder(file, "c2a");
  const received = recorder(file, "a2c");
  const toAgent = new WritableStream({
    write(chunk) {
      sent(chunk);
      return new Promise((resolve, reject) => child.stdin.write(chunk, (e) => (e ? reject(e) : resolve())));
    },
  });
  child.stdout.on("data", received);
  const fromAgent = Readable.toWeb(child.stdout);
  return { child, exited, stream: sdk.ndJsonStream(toAgent, fromAgent) };
}

/** How the person answers: by the kind of the option, as an editor's buttons do. */
function answer({ params, signal }) {
  asks.push({
    title: params.title,
    description: params.description,
    subject: params.subject,
    options: params.options,
    policy,
  });
  if (policy === "never") {
    const cancelled = { outcome: { outcome: "cancelled" } };
    return new Promise((resolve) => {
      signal.addEventListener("abort", () => {
        asks.at(-1).withdrawn = true;
        resolve(cancelled);
      });
    });
  }
  const kind = { allow: "allow_once", always: "allow_always", reject: "reject_once" }[policy];
  const option = params.options.find((candidate) => candidate.kind === kind);
  return { outcome: { outcome: "selected", optionId: option.optionId } };
}

async function connected(op) {
  const { child, exited, stream } = startAgent();
  const app = sdk
    .client({ name: "term2-driver" })
    .onRequest(clientMethods.session.requestPermission, answer)
    .onNotification(clientMethods.session.update, ({ params }) => {
      stray.push(params.update);
    });
  const summary = await app.connectWith(stream, async (context) => {
    const initialized = await context.request(agentMethods.initialize, {
      protocolVersion: sdk.PROTOCOL_VERSION,
      info: { name: "term2-driver", version: "1" },
      capabilities: {},
    });
    return { initialized, ...(await op(context)) };
  });
  child.stdin.end();
  return { ...summary, asks, exit: await exited };
}

// -- one turn --------------------------------------------------------------------------------------

/** Everything up to the stop that ends the turn, folded the way an editor folds it. */
async function turn(session, prompt, { onRunning } = {}) {
  const accepted = await session.prompt(prompt);
  const seen = { kinds: [], text: "", thoughts: "", calls: {}, user: null, accepted };
  for (;;) {
    const message = await session.nextUpdate();
    const { update } = message;
    seen.kinds.push(update.sessionUpdate);
    if (message.kind === "stop") {
      return { ...seen, stopReason: message.stopReason };
    }
    await fold(seen, update, onRunning);
  }
}

async function fold(seen, update, onRunning) {
  switch (update.sessionUpdate) {
    case "user_message":
      seen.user = update;
      if (onRunning) {
        await onRunning();
      }
      break;
    case "agent_message_chunk":
      seen.text += update.content.text;
      break;
    case "agent_message":
      seen.text += update.content.map((block) => block.text).join("");
      break;
    case "agent_thought_chunk":
      seen.thoughts += update.content.text;
      break;
    case "tool_call_update":
      seen.calls[update.toolCallId] = { ...seen.calls[update.toolCallId], ...update };
      break;
  }
}

/** What was told about sessions so far. Handlers run a few turns of the event loop after the line came. */
async function told() {
  for (let turn = 0; turn < 5; turn += 1) {
    await new Promise((resolve) => setImmediate(resolve));
  }
  return stray.splice(0);
}

// -- scenarios -------------------------------------------------------------------------------------

const scenarios = {
  /** A session from its making to its closing, with every way an ask can be answered. */
  async live(context) {
    const session = await context.buildSession(plan.cwd).start();
    const { sessionId } = session;
    const hello = await turn(session, plan.prompts.hello);
    policy = "allow";
    const allowed = await turn(session, plan.prompts.ask);
    policy = "reject";
    const rejected = await turn(session, plan.prompts.ask);
    policy = "never";
    const cancelled = await turn(session, plan.prompts.wait, {
      onRunning: () => context.notify(agentMethods.session.cancel, { sessionId }),
    });
    const listed = await context.request(agentMethods.session.list, { cwd: plan.cwd });
    const elsewhere = await context.request(agentMethods.session.list, { cwd: "/" });
    const closed = await context.request(agentMethods.session.close, { sessionId });
    return { sessionId, hello, allowed, rejected, cancelled, listed, elsewhere, closed };
  },

  /** The ask is open when the turn is cancelled: the agent withdraws it. */
  async withdrawn(context) {
    const session = await context.buildSession(plan.cwd).start();
    const { sessionId } = session;
    policy = "never";
    const accepted = session.prompt(plan.prompts.ask);
    while (asks.length === 0) {
      await new Promise((resolve) => setImmediate(resolve));
    }
    await context.notify(agentMethods.session.cancel, { sessionId });
    await accepted;
    for (;;) {
      const message = await session.nextUpdate();
      if (message.kind === "stop") {
        return { stopReason: message.stopReason };
      }
    }
  },

  /** A prompt with images, as the profile that takes them has it. */
  async images(context) {
    const session = await context.buildSession(plan.cwd).start();
    return { sessionId: session.sessionId, images: await turn(session, plan.blocks) };
  },

  /** Another process shows the whole history. */
  async history(context) {
    await context.request(agentMethods.session.resume, {
      sessionId: plan.sessionId,
      cwd: plan.cwd,
      replayFrom: { type: "start" },
    });
    return { replay: await told() };
  },

  /** Another process takes the session up: first as it is, then with its history. */
  async again(context) {
    const { sessionId } = plan;
    const open = { sessionId, cwd: plan.cwd };
    const plain = await context.request(agentMethods.session.resume, open);
    const withoutReplay = await told();
    await context.request(agentMethods.session.close, { sessionId });
    const replayed = await context.request(agentMethods.session.resume, {
      ...open,
      replayFrom: { type: "start" },
    });
    const replay = await told();
    const stopped = new Promise((resolve) => {
      const look = setInterval(() => {
        const idle = stray.find((update) => update.sessionUpdate === "state_update" && update.state === "idle");
        if (idle) {
          clearInterval(look);
          resolve(idle);
        }
      }, 2);
    });
    const accepted = await context.request(agentMethods.session.prompt, {
      sessionId,
      prompt: [{ type: "text", text: plan.prompts.hello }],
    });
    const idle = await stopped;
    return { plain, withoutReplay, replayed, replay, accepted, idle, live: stray.splice(0) };
  },
};

const summaries = [];
for (plan of JSON.parse(plansText)) {
  asks = [];
  stray = [];
  policy = "allow";
  if (plan.takesUp) {
    plan.sessionId = summaries[0].sessionId;
  }
  summaries.push(await connected(scenarios[plan.scenario]));
}
console.log(JSON.stringify(summaries));
