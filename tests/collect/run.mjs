// Visits pages through a piece as its own runtime would, over real HTTP:  node run.mjs PIECE '[{"url": …}, …]'
import {pathToFileURL} from "node:url";

const [piece, requests] = process.argv.slice(2);
const {default: made} = await import(pathToFileURL(piece));
const answers = [];
for (const {url, method = "GET", headers = {}} of JSON.parse(requests)) {
  const work = [];
  const context = {waitUntil: (promise) => work.push(promise), passThroughOnException() {}};
  const request = new Request(url, {method, headers, redirect: "manual"});
  const answer = made.fetch ? await made.fetch(request, process.env, context) : made(request, context);
  answers.push(answer ? [answer.status, await answer.text()] : null);
  await Promise.all(work);
}
console.log(JSON.stringify(answers));
