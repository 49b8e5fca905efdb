// Counts the views of the page that loads it. No cookies, no storage, no retries. Options: docs/collect/beacon.md.
// Browsers load beacon.js, which scripts/beacon builds from this file. It uses old syntax for old browsers.
(function (window, document, navigator, location) {
  var script = document.currentScript;
  if (!script || !script.dataset.site || (window.copydesk || 0).view) return;
  var options, collector, referrer, counted, waiting;
  options = script.dataset;
  collector = new URL("v1/collect/" + options.site, script.src);
  referrer = document.referrer;

  // With data-hash, the fragment names the page: #/guide is the page /guide.
  function url() {
    return location.origin + location.pathname + ("hash" in options ? location.hash.replace(/^#!?\/*/, "/") : location.search);
  }

  // Routers change the query for filters and tabs, or add a slash. It is still the same page.
  function page() {
    return ("query" in options ? url() : url().split("?")[0]).replace(/\/+$/, "");
  }

  function on(target, event, act) {
    target.addEventListener(event, act);
  }

  function matches(globs) {
    return globs.split(/[ ,]+/).some(function (glob) {
      return RegExp("^" + glob.replace(/[^\w*]/g, "\\$&").replace(/\*/g, ".*") + "$").test(location.pathname);
    });
  }

  function send(event) {
    if (/^$|localhost$|^127\.|^\[::1/.test(location.hostname) && !("local" in options)) return;
    event.u = url();
    event.v = options.visitor;
    event.e = "" + Math.random() + Date.now();
    event = JSON.stringify(event);
    // A plain string is sent as text/plain, which browsers send to another origin without a preflight request.
    try {
      if (window.fetch) fetch(collector, {method: "POST", body: event, keepalive: true, credentials: "omit"}).catch(function () {});
      else navigator.sendBeacon(collector, event);
    } catch (fault) {}
  }

  // A page that is not visible yet (prerendered, or in a background tab) counts when it is shown.
  function view() {
    waiting = document.hidden || document.prerendering;
    if (waiting) return;
    counted = page();
    var refused = "doNotTrack" in options && (navigator.doNotTrack == 1 || navigator.globalPrivacyControl);
    if (!refused && matches(options.include || "*") && !matches(options.exclude || "")) send({r: referrer});
    referrer = url();
  }

  function shown() {
    if (waiting) view();
  }

  function moved() {
    if (page() != counted) view();
  }

  window.copydesk = {
    view: view,
    // copydesk.feedback(true, "Clear.") or copydesk.feedback({helpful: true, comment: "Clear.", contact: "…"})
    feedback: function (helpful, comment) {
      var entry = helpful && helpful.constructor == Object ? helpful : {helpful: helpful, comment: comment};
      send({
        k: "feedback",
        h: entry.helpful == null ? null : !!entry.helpful,
        c: entry.comment,
        contact: entry.contact,
        code: entry.code,
        filename: entry.filename,
        lang: entry.lang,
        agent: entry.agent,
      });
    },
    // copydesk.search("install", {results: 3}), and again with {clicked: "/install"} when the reader opens a result
    search: function (query, found) {
      found = found || {};
      send({k: "search", q: query, n: found.results, t: found.clicked});
    },
  };
  on(document, "visibilitychange", shown);
  on(document, "prerenderingchange", shown);
  if ("manual" in options) return;
  view();

  // Back and forward can restore a page from the cache without a request. That counts as another view.
  on(window, "pageshow", function (event) {
    if (event.persisted) view();
  });
  if (window.navigation) on(navigation, "currententrychange", moved);
  else {
    on(window, "popstate", moved);
    ["pushState", "replaceState"].forEach(function (name) {
      var original = history[name];
      history[name] = function () {
        original.apply(this, arguments);
        moved();
      };
    });
  }
})(self, self.document, self.navigator, self.location);
