from copydesk.cli import main

main()
